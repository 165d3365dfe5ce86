# The functions of nixpkgs' lib that the flake uses, with nixpkgs' meaning.
rec {
  inherit (builtins) concatMap filter mapAttrs;

  genAttrs = names: function: builtins.listToAttrs (map (name: { inherit name; value = function name; }) names);
  optionals = condition: list: if condition then list else [ ];
  hasPrefix = prefix: text: builtins.substring 0 (builtins.stringLength prefix) text == prefix;
  splitString = separator: text: builtins.filter builtins.isString (builtins.split separator text);
  importTOML = file: builtins.fromTOML (builtins.readFile file);
  makePath = directory: packages: builtins.concatStringsSep ":" (map (package: "${package}/${directory}") packages);
  makeBinPath = makePath "bin";
  makeLibraryPath = makePath "lib";
  getExe = package: "${package}/bin/${package.meta.mainProgram}";
  licenses.asl20.spdxId = "Apache-2.0";
}
