// swift-tools-version: 6.0
import PackageDescription

// A package outside the SDK, like that of a user: a device that is often without a network.
let package = Package(
    name: "OfflineDevice",
    dependencies: [.package(name: "LATNetworking", path: "../..")],
    targets: [
        .executableTarget(
            name: "OfflineDevice",
            dependencies: [
                .product(name: "LATNetworking", package: "LATNetworking"),
                // For the rehearsal only.
                .product(name: "LATTesting", package: "LATNetworking"),
            ])
    ]
)
