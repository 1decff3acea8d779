// swift-tools-version: 6.0
import PackageDescription

// A package outside the SDK, like that of a user: the library, and the plugin on its target.
let package = Package(
    name: "TypedNames",
    dependencies: [.package(name: "LATNetworking", path: "../..")],
    targets: [
        .executableTarget(
            name: "TypedNames",
            dependencies: [.product(name: "LATNetworking", package: "LATNetworking")],
            plugins: [.plugin(name: "DomainTablePlugin", package: "LATNetworking")])
    ]
)
