// swift-tools-version: 6.0
import PackageDescription

// A package of its own, so that `swift build` of the library never compiles it. See scripts/fuzz.
let package = Package(
    name: "Fuzzing",
    dependencies: [
        .package(name: "LATNetworking", path: "..")
    ],
    targets: [
        .executableTarget(
            name: "fuzz",
            dependencies: [
                .product(name: "LATNetworking", package: "LATNetworking"),
                .product(name: "LATRealtime", package: "LATNetworking"),
                .product(name: "LATTesting", package: "LATNetworking"),
            ])
    ]
)
