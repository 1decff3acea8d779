// swift-tools-version: 6.0
import PackageDescription

// A program outside the SDK's package, as a user's would be: many small calls, made on the engine's own thread.
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
