// swift-tools-version: 6.0
import PackageDescription

// A package outside the SDK, like that of a user: many small calls on the engine's thread.
let package = Package(
    name: "ManySmallCalls",
    dependencies: [.package(name: "LATNetworking", path: "../..")],
    targets: [
        .executableTarget(
            name: "ManySmallCalls",
            dependencies: [
                .product(name: "LATNetworking", package: "LATNetworking"),
                .product(name: "LATTesting", package: "LATNetworking"),
            ])
    ]
)
