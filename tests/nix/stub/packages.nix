# The packages of nixpkgs that the flake may name. To use another one, look it up there and add its name here.
{ lib, system }:
let
  isLinux = builtins.match ".*-linux" system != null;

  # A real derivation, so that Nix checks what it is made of; its builder would fail.
  derivationOf =
    name: attributes:
    derivation (
      {
        inherit name system;
        builder = "/bin/false";
      }
      // attributes
    );

  named = names: lib.genAttrs names (name: derivationOf name { });

  # Refuses what the function of nixpkgs would refuse or silently ignore.
  only =
    allowed: required: function: attributes:
    let
      unknown = builtins.attrNames (builtins.removeAttrs attributes (allowed ++ required));
      missing = builtins.filter (name: !(attributes ? ${name})) required;
    in
    if unknown != [ ] then
      throw "unknown attributes: ${toString unknown}"
    else if missing != [ ] then
      throw "missing attributes: ${toString missing}"
    else
      function attributes;

  withMeta = attributes: package: package // { meta = attributes.meta or { }; };

  python =
    named [
      "anthropic"
      "brotli"
      "charset-normalizer"
      "cryptography"
      "docker"
      "googleapis-common-protos"
      "grpcio"
      "grpcio-health-checking"
      "grpcio-status"
      "grpcio-tools"
      "h11"
      "h2"
      "hatchling"
      "protego"
      "protobuf"
      "pypdf"
      "pyyaml"
      "selectolax"
      "structlog"
      "voluptuous"
      "zstandard"
    ]
    // {
      httpx = derivationOf "httpx" { } // {
        optional-dependencies.http2 = [ python.h2 ];
      };

      buildPythonPackage =
        only
          [
            "makeWrapperArgs"
            "meta"
            "nativeBuildInputs"
            "preBuild"
            "pythonImportsCheck"
            "pythonRelaxDeps"
            "pythonRemoveDeps"
          ]
          [
            "build-system"
            "dependencies"
            "pname"
            "pyproject"
            "src"
            "version"
          ]
          (
            attributes:
            withMeta attributes (
              derivationOf "${attributes.pname}-${attributes.version}" (builtins.removeAttrs attributes [ "meta" ])
              // {
                inherit (attributes) version;
              }
            )
          );
    };

  everywhere = named [
    "cacert"
    "curl"
    "docker-client"
    "git"
    "gnumake"
    "nodejs"
    "openssl"
    "shellcheck"
  ];
  linux = named [
    "bubblewrap"
    "docker"
    "iproute2"
    "mmdebstrap"
    "nftables"
  ];
in
everywhere
// lib.mapAttrs (name: package: if isLinux then package else throw "${name} is not for ${system}") linux
// {
  stdenv = {
    hostPlatform = { inherit isLinux system; };
    cc.cc.lib = derivationOf "gcc-lib" { };
  };
  python3Packages = python;
  python3 = derivationOf "python3" { } // {
    withPackages = choose: derivationOf "python3-env" { packages = choose python; };
  };
  runCommand =
    name:
    only [ "meta" "nativeBuildInputs" ] [ ] (
      attributes: script:
      withMeta attributes (derivationOf name (builtins.removeAttrs attributes [ "meta" ] // { inherit script; }))
    );
  mkShell = only [ "LD_LIBRARY_PATH" ] [ "packages" ] (derivationOf "shell");
}
