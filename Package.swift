// swift-tools-version: 6.1
import PackageDescription

// The storeys, lowest first. A target imports only targets of the storeys below it, and of its own those before it.
let storeys = [
    ("Sources/Base", ["CLinux", "CSQLite", "CLibcrypto", "CLibcurl", "CZlib", "CHiredis", "CLibyaml"]),
    ("Sources/Base", ["Platform", "SQLite", "Cryptography", "JSONText"]),
    ("Sources/Client", ["HTTPCore", "DomainTables", "CurlTransport", "ResponseCache", "LATSealing", "LATClient"]),
    ("Sources/Client", ["LATTransfers", "LATNetworking"]),
    (
        "Sources/AddOns",
        ["LATKit", "LATRealtime", "LATInspect", "LATFleet", "CassetteTesting", "LATStorage", "LATTesting"]
    ),
    ("Tools", ["DomainTableGenerator", "OpenAPIImport", "lat"]),
    ("Examples", ["Demo", "FleetDemo"]),
]

// What `import LATNetworking` brings. SwiftPM compiles a target again when the module of a direct dependency changes, and that
// of LATNetworking does not change with those that it exports. So whoever depends on it depends on these, too.
let exported = ["LATClient", "LATTransfers", "LATSealing", "DomainTables", "CurlTransport", "HTTPCore"]

// Libraries for apps, for their storage and for their tests, the command, and the plugin.
let package = Package(
    name: "LATNetworking",
    products: [
        .library(name: "LATNetworking", targets: ["LATNetworking"] + exported),
        .library(name: "LATRealtime", targets: ["LATRealtime"]),
        // Shows what calls do: records, metrics, traces, HAR.
        .library(name: "LATInspect", targets: ["LATInspect"]),
        // What apps of older SDKs have beside their calls: request classes with a delegate, chains, an indicator.
        .library(name: "LATKit", targets: ["LATKit"]),
        .library(name: "LATStorage", targets: ["LATStorage"]),
        // The trait of Swift Testing for cassettes.
        .library(name: "CassetteTesting", targets: ["CassetteTesting"]),
        .library(name: "LATTesting", targets: ["LATTesting"]),
        // For apps that write a store of their own, or name the types of the cache's reports.
        .library(name: "ResponseCache", targets: ["ResponseCache"]),
        // What the processes of a service share on a Redis. Needs the trait Fleet.
        .library(name: "LATFleet", targets: ["LATFleet"]),
        .executable(name: "lat", targets: ["lat"]),
        .plugin(name: "DomainTablePlugin", targets: ["DomainTablePlugin"]),
    ],
    traits: [
        .trait(
            name: "Fleet",
            description:
                "Lets LATFleet speak to a Redis. Needs hiredis (Debian: libhiredis-dev), which nothing else asks for.")
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
        // Found without pkg-config, which SwiftPM would ask even if the trait is off.
        .systemLibrary(name: "CHiredis", providers: [.apt(["libhiredis-dev"])]),
        .systemLibrary(name: "CLibyaml", pkgConfig: "yaml-0.1", providers: [.apt(["libyaml-dev"])]),
        .systemLibrary(name: "CLinux"),
        .target(name: "Platform", dependencies: ["CLinux"]),
        .target(name: "SQLite", dependencies: ["CSQLite"]),
        .target(name: "Cryptography", dependencies: ["CLibcrypto"]),
        .target(name: "JSONText"),
        .target(name: "HTTPCore", dependencies: ["JSONText", "Platform"]),
        .target(name: "DomainTables", dependencies: ["HTTPCore", "JSONText", "Platform"]),
        .target(
            name: "CurlTransport",
            dependencies: ["HTTPCore", "CLibcurl", "CLinux", "CZlib", "Cryptography", "Platform"]),
        .target(
            name: "ResponseCache", dependencies: ["HTTPCore", "CLinux", "SQLite", "Cryptography", "Platform"]),
        .target(name: "LATSealing", dependencies: ["HTTPCore", "CurlTransport", "Cryptography", "Platform"]),
        .target(
            name: "LATClient",
            dependencies: [
                "HTTPCore", "CurlTransport", "DomainTables", "Cryptography", "LATSealing", "Platform", "ResponseCache",
            ]),
        .target(
            name: "LATTransfers",
            dependencies: ["HTTPCore", "CurlTransport", "Cryptography", "LATClient", "Platform", "SQLite"]),
        // Only exports the two above.
        .target(name: "LATNetworking", dependencies: ["LATClient", "LATTransfers"]),
        .target(name: "LATKit", dependencies: ["LATNetworking", "Platform"]),
        .target(
            name: "LATRealtime", dependencies: ["LATNetworking", "HTTPCore", "CZlib", "Cryptography", "Platform"]),
        .target(
            name: "LATInspect",
            dependencies: [
                "LATNetworking", "HTTPCore", "CurlTransport", "ResponseCache", "Cryptography", "Platform", "CLinux",
            ],
            resources: [.embedInCode("Page/Files")]),
        .target(
            name: "LATFleet",
            dependencies: [
                "HTTPCore", "CurlTransport", "Cryptography", "Platform", "ResponseCache", "LATNetworking",
                .target(name: "CHiredis", condition: .when(traits: ["Fleet"])),
            ],
            swiftSettings: [.define("HAS_HIREDIS", .when(traits: ["Fleet"]))]),
        .target(name: "CassetteTesting", dependencies: ["LATInspect", "HTTPCore", "CurlTransport"]),
        .target(name: "LATStorage", dependencies: ["HTTPCore", "JSONText", "SQLite", "Cryptography", "Platform"]),
        .target(
            name: "LATTesting",
            dependencies: ["CLinux", "Cryptography", "HTTPCore", "JSONText", "Platform", "ResponseCache"]),
        .executableTarget(name: "DomainTableGenerator", dependencies: ["DomainTables"]),
        .plugin(name: "DomainTablePlugin", capability: .buildTool(), dependencies: ["DomainTableGenerator"]),
        // Documents of the OpenAPI in, rows of the table and Swift out.
        .target(
            name: "OpenAPIImport", dependencies: ["CLibyaml", "JSONText", "HTTPCore", "DomainTables"]),
        .executableTarget(
            name: "lat",
            dependencies: [
                "OpenAPIImport",
                "LATNetworking", "LATRealtime", "LATInspect", "LATFleet", "LATStorage", "LATTesting", "ResponseCache",
                "DomainTables", "Cryptography", "Demo", "HTTPCore", "Platform",
            ]),

        // The steps of `lat demo`, and the processes of scripts/demo-fleet.
        .target(name: "Demo", dependencies: ["LATNetworking", "LATTesting"]),
        .executableTarget(
            name: "FleetDemo", dependencies: ["LATFleet", "LATNetworking", "LATTesting", "Cryptography", "Platform"]),

        // What several test targets use: programs they start, certificates, waiting.
        .target(
            name: "TestSupport",
            dependencies: ["CLibcurl", "CurlTransport", "HTTPCore", "LATTesting", "Platform", "ResponseCache"],
            path: "Tests/TestSupport"),
        .testTarget(name: "HTTPCoreTests", dependencies: ["HTTPCore"]),
        .testTarget(name: "PlatformTests", dependencies: ["Platform", "CLibcurl", "LATTesting", "TestSupport"]),
        .testTarget(name: "CryptographyTests", dependencies: ["Cryptography"]),
        .testTarget(
            name: "ResponseCacheTests",
            dependencies: ["ResponseCache", "LATTesting", "CacheWriterProcess", "SQLite", "TestSupport"],
            exclude: ["CacheWriterProcess"]),
        // A process that the tests of the cache kill while it writes.
        .executableTarget(
            name: "CacheWriterProcess", dependencies: ["Platform", "ResponseCache", "SQLite"],
            path: "Tests/ResponseCacheTests/CacheWriterProcess"),
        .testTarget(
            name: "LATRealtimeTests",
            dependencies: ["LATRealtime", "LATNetworking", "LATTesting", "CurlTransport", "Platform", "TestSupport"]),
        .testTarget(
            name: "LATInspectTests",
            dependencies: [
                "LATInspect", "CassetteTesting", "LATClient", "LATNetworking", "LATRealtime", "LATTesting", "HTTPCore",
                "Platform",
                "lat", "TestSupport",
            ],
            exclude: ["Cassettes/Cassettes"]),
        .testTarget(
            name: "LATStorageTests", dependencies: ["LATStorage", "LATTesting", "Platform", "SQLite", "TestSupport"]),
        .testTarget(
            name: "LATFleetTests",
            dependencies: [
                "LATFleet", "LATNetworking", "LATTesting", "ResponseCache", "CurlTransport", "HTTPCore", "Cryptography",
                "Platform", "FleetProcess", "TestSupport",
            ],
            exclude: ["FleetProcess"]),
        // A process of a fleet that the tests kill.
        .executableTarget(
            name: "FleetProcess", dependencies: ["LATFleet", "LATNetworking", "ResponseCache", "HTTPCore", "Platform"],
            path: "Tests/LATFleetTests/FleetProcess"),
        .testTarget(name: "LATTestingTests", dependencies: ["LATTesting", "Platform", "TestSupport"]),
        .testTarget(
            name: "CurlTransportTests", dependencies: ["CurlTransport", "LATTesting", "Platform", "TestSupport"]),
        .testTarget(
            name: "LATNetworkingTests",
            dependencies: [
                "LATClient", "LATSealing", "LATTransfers", "LATKit", "LATNetworking", "CurlTransport", "DomainTables",
                "ResponseCache", "Cryptography", "LATTesting",
                "Platform", "TestSupport",
            ]),
        .testTarget(
            name: "DomainTableTests",
            dependencies: [
                "LATClient", "LATNetworking", "DomainTables", "DomainTableGenerator", "LATTesting", "Cryptography",
                "TestSupport",
            ],
            exclude: ["Mistakes"]),
        .testTarget(
            name: "LATCommandTests",
            dependencies: ["LATTesting", "LATFleet", "CurlTransport", "Platform", "lat", "TestSupport"]),
        .testTarget(
            name: "OpenAPIImportTests",
            dependencies: ["OpenAPIImport", "LATNetworking", "DomainTables", "HTTPCore", "LATTesting"],
            exclude: ["Documents"]),
        // What Documentation/Coming-from*.md shows, compiled and run.
        .testTarget(
            name: "ComingFromTests",
            dependencies: ["LATNetworking", "LATKit", "LATStorage", "LATTesting", "TestSupport"]),
        // The samples of all pages of documentation, compiled; those of Recipes.md are run, too.
        .testTarget(
            name: "DocumentationTests",
            dependencies: [
                "LATClient", "LATSealing", "LATTransfers", "LATNetworking", "LATInspect", "LATKit", "LATRealtime",
                "LATStorage",
                "LATTesting", "LATFleet", "ResponseCache",
                "Snippets", "lat",
            ],
            exclude: ["SnippetGenerator", "Snippets"],
            // A sample shows a call, and does not always use what it returns.
            swiftSettings: [.unsafeFlags(["-Xfrontend", "-suppress-warnings"])],
            plugins: ["SnippetPlugin"]),
        .target(name: "Snippets", path: "Tests/DocumentationTests/Snippets"),
        .plugin(name: "SnippetPlugin", capability: .buildTool()),
        // The fuzz targets of scripts/fuzz, and tests that replay their corpus.
        .testTarget(
            name: "FuzzTests",
            dependencies: [
                "HTTPCore", "DomainTables", "CurlTransport", "ResponseCache", "Cryptography", "LATClient", "LATSealing",
                "LATTransfers", "LATNetworking",
                "LATRealtime", "LATTesting",
            ],
            exclude: ["Corpus"]),
    ]
)

for target in package.targets {
    let named = target.dependencies.compactMap { if case .byNameItem(let name, _) = $0 { name } else { nil } }
    guard named.contains("LATNetworking") else { continue }
    target.dependencies += exported.filter { !named.contains($0) }.map { .byName(name: $0) }
}
for (folder, names) in storeys {
    for target in package.targets where names.contains(target.name) { target.path = "\(folder)/\(target.name)" }
}

// The examples are packages of their own, like those of users. For CI, `scripts/examples` builds them as targets of this one, so that
// the library is compiled once. Without access to what is for the package only, they use what a user sees.
if let examples = Context.environment["LAT_EXAMPLES"]?.split(separator: " ").map(String.init) {
    // Those whose names are generated have their table beside the sources.
    let generated = ["PriceService", "TypedNames"]
    package.targets += examples.map { name in
        let isGenerated = generated.contains(name)
        return .executableTarget(
            name: name, dependencies: ["LATNetworking", "LATTesting"] + exported.map { .byName(name: $0) },
            path: isGenerated ? "Examples/\(name)" : "Examples/\(name)/Sources/\(name)",
            sources: isGenerated ? ["Sources"] : nil, packageAccess: false,
            plugins: isGenerated ? ["DomainTablePlugin"] : [])
    }
}

// Keeps only these test targets: `scripts/test --sanitize … --short` runs a few and builds only what they need.
if let chosen = Context.environment["LAT_TEST_TARGETS"]?.split(separator: " ").map(String.init) {
    package.targets.removeAll { $0.type == .test && !chosen.contains($0.name) }
}
