// swift-tools-version: 6.0
import PackageDescription

// Libraries for apps, for their storage and for their tests, the command, and the plugin. A target may import only targets
// above it.
let package = Package(
    name: "LATNetworking",
    products: [
        .library(name: "LATNetworking", targets: ["LATNetworking"]),
        .library(name: "LATStorage", targets: ["LATStorage"]),
        .library(name: "LATTesting", targets: ["LATTesting"]),
        // For those who write a store of their own, or read the cache's reports by name.
        .library(name: "ResponseCache", targets: ["ResponseCache"]),
        .executable(name: "lat", targets: ["lat"]),
        .plugin(name: "DomainTablePlugin", targets: ["DomainTablePlugin"]),
    ],
    targets: [
        .systemLibrary(
            name: "CLibcurl",
            pkgConfig: "libcurl",
            providers: [.apt(["libcurl4-openssl-dev"])]
        ),
        .systemLibrary(name: "CSQLite", pkgConfig: "sqlite3", providers: [.apt(["libsqlite3-dev"])]),
        .systemLibrary(name: "CLibcrypto", pkgConfig: "libcrypto", providers: [.apt(["libssl-dev"])]),
        .systemLibrary(name: "CZlib", pkgConfig: "zlib", providers: [.apt(["zlib1g-dev"])]),
        .systemLibrary(name: "CLinux"),
        .target(name: "Platform", dependencies: ["CLinux"]),
        .target(name: "SQLite", dependencies: ["CSQLite"]),
        .target(name: "Cryptography", dependencies: ["CLibcrypto"]),
        .target(name: "HTTPCore"),
        .target(name: "DomainTableFormat"),
        .target(
            name: "CurlTransport",
            dependencies: ["HTTPCore", "CLibcurl", "CLinux", "CZlib", "Cryptography", "Platform"]),
        .target(
            name: "ResponseCache", dependencies: ["HTTPCore", "CLinux", "SQLite", "Cryptography", "Platform"]),
        .target(
            name: "LATNetworking",
            dependencies: [
                "HTTPCore", "CurlTransport", "DomainTableFormat", "Cryptography", "Platform", "ResponseCache",
            ]),
        .target(name: "LATStorage", dependencies: ["HTTPCore", "SQLite", "Cryptography", "Platform"]),
        .target(name: "LATTesting", dependencies: ["CLinux", "HTTPCore", "Platform", "ResponseCache"]),
        .executableTarget(name: "DomainTableGenerator", dependencies: ["DomainTableFormat"]),
        .plugin(name: "DomainTablePlugin", capability: .buildTool(), dependencies: ["DomainTableGenerator"]),
        .executableTarget(
            name: "lat",
            dependencies: ["LATNetworking", "LATStorage", "LATTesting", "ResponseCache", "DomainTableFormat"]),

        .testTarget(name: "HTTPCoreTests", dependencies: ["HTTPCore"]),
        .testTarget(name: "CryptographyTests", dependencies: ["Cryptography"]),
        .testTarget(
            name: "ResponseCacheTests", dependencies: ["ResponseCache", "LATTesting", "CacheWriterProcess", "SQLite"],
            exclude: ["CacheWriterProcess"]),
        // A process that the tests of the cache kill while it writes.
        .executableTarget(
            name: "CacheWriterProcess", dependencies: ["Platform", "ResponseCache", "SQLite"],
            path: "Tests/ResponseCacheTests/CacheWriterProcess"),
        .testTarget(name: "LATStorageTests", dependencies: ["LATStorage", "LATTesting"]),
        .testTarget(name: "LATTestingTests", dependencies: ["LATTesting"]),
        .testTarget(name: "CurlTransportTests", dependencies: ["CurlTransport", "LATTesting", "Platform"]),
        .testTarget(
            name: "LATNetworkingTests",
            dependencies: [
                "LATNetworking", "CurlTransport", "DomainTableFormat", "ResponseCache", "Cryptography", "LATTesting",
                "Platform",
            ]),
        .testTarget(
            name: "DomainTableTests",
            dependencies: ["LATNetworking", "DomainTableFormat", "DomainTableGenerator", "LATTesting"]),
        .testTarget(name: "LATCommandTests", dependencies: ["LATTesting", "lat"]),
        // What Documentation/Coming-from.md shows, compiled and run.
        .testTarget(name: "ComingFromTests", dependencies: ["LATNetworking", "LATStorage", "LATTesting"]),
        // The fuzz targets of scripts/fuzz, and tests that replay their corpus.
        .testTarget(
            name: "FuzzTests",
            dependencies: [
                "HTTPCore", "DomainTableFormat", "CurlTransport", "ResponseCache", "Cryptography", "LATNetworking",
                "LATTesting",
            ],
            exclude: ["Corpus"]),
    ]
)

// Keeps only these test targets: `scripts/test --sanitize … --short` runs a few and builds only what they need.
if let chosen = Context.environment["LAT_TEST_TARGETS"]?.split(separator: " ").map(String.init) {
    package.targets.removeAll { $0.type == .test && !chosen.contains($0.name) }
}
