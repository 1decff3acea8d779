// swift-tools-version: 6.0
import PackageDescription

// A package outside the SDK, like that of a user. scripts/examples makes the rows of its table and the calls in
// Sources/BookClient/Library from library.yaml before it is built.
let package = Package(
    name: "BookClient",
    dependencies: [.package(name: "LATNetworking", path: "../..")],
    targets: [
        .executableTarget(
            name: "BookClient",
            dependencies: [
                .product(name: "LATNetworking", package: "LATNetworking"),
                // For the server of examples only.
                .product(name: "LATTesting", package: "LATNetworking"),
            ])
    ]
)
