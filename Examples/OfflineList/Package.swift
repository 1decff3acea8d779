// swift-tools-version: 6.0
import PackageDescription

// A package outside the SDK, like that of a user: calls whose results are stored for use without a network.
let package = Package(
    name: "OfflineList",
    dependencies: [.package(name: "LATNetworking", path: "../..")],
    targets: [
        .executableTarget(
            name: "OfflineList",
            dependencies: [
                .product(name: "LATNetworking", package: "LATNetworking"),
                .product(name: "LATStorage", package: "LATNetworking"),
                .product(name: "LATTesting", package: "LATNetworking"),
            ])
    ]
)
