// swift-tools-version: 6.0
import PackageDescription

// A package outside the SDK, like that of a user: a service, with the plugin that makes names of its table.
let package = Package(
    name: "PriceService",
    dependencies: [.package(name: "LATNetworking", path: "../..")],
    targets: [
        .executableTarget(
            name: "PriceService",
            dependencies: [
                .product(name: "LATNetworking", package: "LATNetworking"),
                // For the rehearsal only.
                .product(name: "LATTesting", package: "LATNetworking"),
            ],
            plugins: [.plugin(name: "DomainTablePlugin", package: "LATNetworking")])
    ]
)
