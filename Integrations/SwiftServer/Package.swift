// swift-tools-version: 6.2
import PackageDescription

// Bridges to the packages that Swift services share. A package of its own, so that the SDK itself needs no other package.
let package = Package(
    name: "SwiftServer",
    products: [
        .library(name: "LATLogging", targets: ["LATLogging"]),
        .library(name: "LATTracing", targets: ["LATTracing"]),
        .library(name: "LATMetrics", targets: ["LATMetrics"]),
        .library(name: "LATHTTPTypes", targets: ["LATHTTPTypes"]),
        .library(name: "LATOpenAPITransport", targets: ["LATOpenAPITransport"]),
    ],
    dependencies: [
        .package(name: "LATNetworking", path: "../.."),
        .package(url: "https://github.com/apple/swift-log.git", from: "1.14.0"),
        .package(url: "https://github.com/apple/swift-metrics.git", from: "2.10.0"),
        .package(url: "https://github.com/apple/swift-distributed-tracing.git", from: "1.4.0"),
        .package(url: "https://github.com/apple/swift-service-context.git", from: "1.3.0"),
        .package(url: "https://github.com/apple/swift-http-types.git", from: "1.6.0"),
        .package(url: "https://github.com/apple/swift-openapi-runtime.git", from: "1.11.0"),
        // For the tests only. Packages that depend on this one do not load it.
        .package(url: "https://github.com/swift-server/swift-service-lifecycle.git", from: "2.11.0"),
    ],
    targets: [
        // The names of OpenTelemetry's conventions, and what a call has for them.
        .target(name: "LATConventions", dependencies: [.core]),
        .target(
            name: "LATLogging",
            dependencies: [.core, "LATConventions", .product(name: "Logging", package: "swift-log")]),
        .target(
            name: "LATTracing",
            dependencies: [
                .core, "LATConventions", .product(name: "Tracing", package: "swift-distributed-tracing"),
                .product(name: "ServiceContextModule", package: "swift-service-context"),
            ]),
        .target(
            name: "LATMetrics",
            dependencies: [
                .core, .inspect, "LATConventions", .product(name: "ResponseCache", package: "LATNetworking"),
                .product(name: "CoreMetrics", package: "swift-metrics"),
            ]),
        .target(
            name: "LATHTTPTypes", dependencies: [.core, .product(name: "HTTPTypes", package: "swift-http-types")]),
        .target(
            name: "LATOpenAPITransport",
            dependencies: [
                .core, "LATHTTPTypes", .product(name: "HTTPTypes", package: "swift-http-types"),
                .product(name: "OpenAPIRuntime", package: "swift-openapi-runtime"),
            ]),
        // What scripts/bench counts in its row `bridges`.
        .executableTarget(
            name: "BridgeBench",
            dependencies: [
                .core, .inspect, "LATLogging", "LATTracing", .product(name: "Logging", package: "swift-log"),
                .product(name: "InMemoryTracing", package: "swift-distributed-tracing"),
            ]),
        .testTarget(
            name: "SwiftServerTests",
            dependencies: [
                .core, .inspect, .product(name: "LATTesting", package: "LATNetworking"), "LATLogging", "LATTracing",
                "LATMetrics", "LATHTTPTypes", "LATOpenAPITransport",
                .product(name: "Logging", package: "swift-log"),
                .product(name: "InMemoryLogging", package: "swift-log"),
                .product(name: "MetricsTestKit", package: "swift-metrics"),
                .product(name: "InMemoryTracing", package: "swift-distributed-tracing"),
                .product(name: "OpenAPIRuntime", package: "swift-openapi-runtime"),
                .product(name: "ServiceLifecycle", package: "swift-service-lifecycle"),
            ]),
    ]
)

extension Target.Dependency {
    static var core: Self { .product(name: "LATNetworking", package: "LATNetworking") }
    static var inspect: Self { .product(name: "LATInspect", package: "LATNetworking") }
}
