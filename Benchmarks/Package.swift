// swift-tools-version: 6.0
import PackageDescription

// A package of its own, so that `swift build` of the library never compiles it. See scripts/bench.
let package = Package(
    name: "Benchmarks",
    dependencies: [
        .package(name: "LATNetworking", path: "..")
    ],
    targets: [
        .target(name: "BenchmarkSupport"),
        .executableTarget(
            name: "lat-bench",
            dependencies: ["BenchmarkSupport", .product(name: "LATNetworking", package: "LATNetworking")]
        ),
        .executableTarget(
            name: "store-bench",
            dependencies: ["BenchmarkSupport", .product(name: "LATStorage", package: "LATNetworking")]
        ),
        .executableTarget(name: "urlsession-bench", dependencies: ["BenchmarkSupport"]),
    ]
)
