// swift-tools-version: 6.0
import PackageDescription

// A package outside the SDK, like that of a user: a command-line tool.
let package = Package(
    name: "FetchTool",
    dependencies: [.package(name: "LATNetworking", path: "../..")],
    targets: [
        .executableTarget(
            name: "FetchTool",
            dependencies: [
                .product(name: "LATNetworking", package: "LATNetworking"),
                // For the trial only.
                .product(name: "LATTesting", package: "LATNetworking"),
            ])
    ]
)
