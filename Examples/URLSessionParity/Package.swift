// swift-tools-version: 6.0
import PackageDescription

// Puts the same questions to LATNetworking and to URLSession on this machine, against a server it starts itself:
// swift run. The SDK never imports FoundationNetworking; this program does, to measure the other side.
let package = Package(
    name: "URLSessionParity",
    dependencies: [.package(name: "LATNetworking", path: "../..")],
    targets: [
        .executableTarget(
            name: "URLSessionParity",
            dependencies: [
                .product(name: "LATNetworking", package: "LATNetworking"),
                .product(name: "LATTesting", package: "LATNetworking"),
            ])
    ]
)
