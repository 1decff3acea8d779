// swift-tools-version: 6.0
import PackageDescription

// A program outside the SDK's package, as a user's would be: the library, and the plugin on its target.
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
