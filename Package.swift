// swift-tools-version: 6.0
import PackageDescription

// One product for apps, one for their tests, one command. Every target below may import only targets above it.
let package = Package(
    name: "LATNetworking",
    products: [
        .library(name: "LATNetworking", targets: ["LATNetworking"]),
        .library(name: "LATTesting", targets: ["LATTesting"]),
        .executable(name: "lat", targets: ["lat"]),
        .plugin(name: "DomainTablePlugin", targets: ["DomainTablePlugin"]),
    ],
    targets: [
        .systemLibrary(
            name: "CLibcurl",
            pkgConfig: "libcurl",
            providers: [.apt(["libcurl4-openssl-dev"])]
        ),
        .target(name: "HTTPCore"),
        .target(name: "DomainTableFormat"),
        .target(name: "CurlTransport", dependencies: ["HTTPCore", "CLibcurl"]),
        .target(name: "LATNetworking", dependencies: ["HTTPCore", "CurlTransport", "DomainTableFormat"]),
        .target(name: "LATTesting", dependencies: ["HTTPCore"]),
        .executableTarget(name: "DomainTableGenerator", dependencies: ["DomainTableFormat"]),
        .plugin(name: "DomainTablePlugin", capability: .buildTool(), dependencies: ["DomainTableGenerator"]),
        .executableTarget(name: "lat", dependencies: ["LATNetworking", "LATTesting"]),

        .testTarget(name: "HTTPCoreTests", dependencies: ["HTTPCore"]),
        .testTarget(name: "LATTestingTests", dependencies: ["LATTesting"]),
        .testTarget(name: "CurlTransportTests", dependencies: ["CurlTransport", "LATTesting"]),
        .testTarget(name: "LATNetworkingTests", dependencies: ["LATNetworking", "LATTesting"]),
        .testTarget(
            name: "DomainTableTests",
            dependencies: ["LATNetworking", "DomainTableFormat", "DomainTableGenerator", "LATTesting"]),
        .testTarget(name: "LATCommandTests", dependencies: ["LATTesting", "lat"]),
    ]
)
