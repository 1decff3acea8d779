// swift-tools-version: 6.0
import PackageDescription

// Compares LATNetworking with URLSession on this machine, against servers that it starts itself: swift run. The SDK
// never imports FoundationNetworking; this program does, for the comparison.
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
