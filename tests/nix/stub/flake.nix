# Stands in for nixpkgs where there is no network: every output of our flake can be evaluated against it, and a name
# that nixpkgs does not have is an error. Nothing can be built with it.
{
  outputs =
    { self }:
    let
      lib = import ./lib.nix;
    in
    {
      inherit lib;
      legacyPackages = lib.genAttrs [
        "x86_64-linux"
        "aarch64-linux"
        "x86_64-darwin"
        "aarch64-darwin"
      ] (system: import ./packages.nix { inherit lib system; });
    };
}
