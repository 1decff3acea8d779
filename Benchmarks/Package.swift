// swift-tools-version: 6.1
import Foundation
import PackageDescription

// `scripts/bench --without-executor`: measures a library that has no `manager.executor`.
let withoutExecutor = ProcessInfo.processInfo.environment["LAT_BENCH_WITHOUT_EXECUTOR"] == "1"
// `scripts/bench` where hiredis is installed: also measures the fleet.
let hasHiredis = ProcessInfo.processInfo.environment["LAT_BENCH_FLEET"] == "1"

// A package of its own, so that `swift build` of the library never compiles it. See scripts/bench.
let package = Package(
    name: "Benchmarks",
    dependencies: [
        .package(name: "LATNetworking", path: "..", traits: hasHiredis ? ["Fleet"] : [])
    ],
    targets: [
        .target(name: "BenchmarkSupport"),
        .executableTarget(
            name: "lat-bench",
            dependencies: [
                "BenchmarkSupport", .product(name: "LATNetworking", package: "LATNetworking"),
                .product(name: "LATFleet", package: "LATNetworking"),
                .product(name: "LATInspect", package: "LATNetworking"),
                .product(name: "LATRealtime", package: "LATNetworking"),
                .product(name: "ResponseCache", package: "LATNetworking"),
            ],
            exclude: withoutExecutor ? ["Executor.swift"] : [],
            swiftSettings: withoutExecutor ? [.define("WITHOUT_EXECUTOR")] : []
        ),
        .executableTarget(
            name: "store-bench",
            dependencies: ["BenchmarkSupport", .product(name: "LATStorage", package: "LATNetworking")]
        ),
        .executableTarget(name: "urlsession-bench", dependencies: ["BenchmarkSupport"]),
    ]
)
