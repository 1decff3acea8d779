// swift-tools-version: 6.0
import PackageDescription

// A program outside the SDK's package, as a user's would be: calls, and what they leave behind for when there is no network.
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
