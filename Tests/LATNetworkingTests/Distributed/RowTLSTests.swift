import Foundation
import LATNetworking
import LATTesting
import Synchronization
import TestSupport
import Testing

/// `tls` of rows against a real server, and rows that change under load.
@Suite(
    .needsNginx,
    .timeLimit(.minutes(2)))
struct RowTLSTests {
    private let directory: TemporaryDirectory
    private let nginx: String
    private let authority: String

    init() throws {
        directory = try TemporaryDirectory()
        nginx = try #require(Servers.nginxTLS)
        authority = try #require(Servers.authority)
    }

    /// Makes an authority that has signed nothing.
    private func otherAuthority() throws -> String {
        let path = directory.path(of: "other.pem")
        let process = Process()
        process.executableURL = URL(filePath: "/usr/bin/env")
        process.arguments = [
            "openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days",
            "2", "-subj", "/CN=Other", "-keyout", directory.path(of: "other.key"), "-out", path,
        ]
        process.standardError = FileHandle.nullDevice
        try process.run()
        process.waitUntilExit()
        try #require(process.terminationStatus == 0)
        return path
    }

    private func table(_ tls: String, defaults: String = "") throws -> DomainTable {
        try .make(
            nginx, domain: tls.isEmpty ? "" : "tls: { \(tls) }",
            servers: #"s: { domain: "d", path: "empty.bin", method: "GET" }"#, defaults: defaults)
    }

    @Test func rowTrustsItsOwnAuthority() async throws {
        let other = try otherAuthority()
        let right = try table("caFile: \"\(authority)\"")
        let wrong = try table("caFile: \"\(other)\"")
        let manager = try CentralRequestManager.make(right)
        #expect(try await Row().reply(on: manager).response.status == 200)
        for _ in 0..<3 {
            // Open connections and sessions of the right authority do not help the wrong one.
            try manager.updateDomains { $0 = wrong }
            #expect(await failure { try await Row().startRequest(on: manager) }?.kind == .tls(.untrusted))
            try manager.updateDomains { $0 = right }
            let response = try await Row().reply(on: manager).response
            #expect(response.status == 200 && response.timings.connectionReused)
        }
        // The manager's other calls trust the system's authorities.
        let central = await failure { try await manager.startRequest("GET", nginx + "/empty.bin") }
        #expect(central?.kind == .tls(.untrusted) || central?.kind == .tls(.selfSigned))
        try manager.updateDomains { $0 = wrong }
        let call = Row().setting(\.tls, HTTPRequest.TLS(caFile: authority))
        #expect(try await call.reply(on: manager).response.status == 200)
    }

    @Test func defaultsAndDomainAreMergedMemberByMember() throws {
        let table = try table("caFile: \"/d.pem\"", defaults: #"tls: { caFile: "/a.pem", minimumVersion: "1.3" }"#)
        let settings = try table.resolve(server: "s").settings.tls
        #expect(settings.caFile == "/d.pem" && settings.minimumVersion == .v1_3)
        #expect(table.explain("s").contains("tls.minimumVersion  1.3"))
    }

    @Test func probesAndPrewarmingTrustTheRowsAuthority() async throws {
        let manager = try CentralRequestManager.make(table("caFile: \"\(authority)\""))
        #expect(await manager.reachability.probe("d").isReachable)
        try await manager.prewarm("d")
        #expect(try await Row().reply(on: manager).response.timings.connectionReused)
    }

    @Test func redirectToAnotherOriginDropsTheRowsSettings() async throws {
        let server = try MockServer()
        server.fallback { _ in .redirect(to: nginx + "/empty.bin") }
        let row = try DomainTable.make(
            server.url(), domain: "tls: { caFile: \"\(authority)\" }",
            servers: #"s: { domain: "d", path: "x", method: "GET" }"#)
        let manager = try CentralRequestManager.make(row)
        let error = await failure { try await Row().startRequest(on: manager) }
        #expect(error?.kind == .tls(.untrusted) || error?.kind == .tls(.selfSigned))
    }

    @Test func unusableFilesAreNamedWithTheirRow() async throws {
        _ = try directory.write(Data("junk".utf8), to: "id.p12")
        let path = directory.path(of: "domains.json5")
        func error(_ tls: String) async throws -> NetworkError? {
            _ = try directory.write(
                Data(
                    DomainTable.text(
                        nginx, domain: "\ntls: { \(tls) }", servers: #"s: { domain: "d", path: "x", method: "GET" }"#
                    ).utf8), to: "domains.json5")
            let manager = try CentralRequestManager.make(DomainTable(contentsOf: path, environment: nil))
            return await failure { try await Row().startRequest(on: manager) }
        }
        let row = "tls of the domain \"d\", \(path):4"
        let missing = try await error(#"caFile: "no.pem""#)
        #expect(missing?.kind == .invalidRequest)
        #expect(missing?.message.contains("tls.caFile \"\(directory.path)/no.pem\" cannot be read") == true)
        #expect(missing?.message.contains(row) == true, "\(missing?.message ?? "")")
        let junk = try await error(#"clientCertificate: { file: "id.p12", passwordVariable: "PATH" }"#)
        #expect(junk?.message.contains("id.p12\" is not a PKCS#12 file") == true, "\(junk?.message ?? "")")
        #expect(junk?.message.contains(row) == true)
        let unset = try await error(#"clientCertificate: { file: "id.p12", passwordVariable: "LAT_NOT_SET" }"#)
        #expect(unset?.kind == .invalidRequest)
        #expect(unset?.message.contains("the environment variable LAT_NOT_SET") == true)
        #expect(unset?.message.contains(row) == true)
    }

    @Test func serverRowsSettingsAreItsOwn() async throws {
        let other = try otherAuthority()
        let table = try DomainTable.make(
            nginx, domain: "tls: { caFile: \"\(other)\" }",
            servers: """
                s: { domain: "d", path: "empty.bin", method: "GET", tls: { caFile: "\(authority)" } },
                t: { domain: "d", path: "empty.bin", method: "GET" },
                """)
        struct Neighbour: RequestEntity { static let route = Route(server: "t") }
        let manager = try CentralRequestManager.make(table)
        for _ in 0..<2 {
            #expect(try await Row().reply(on: manager).response.status == 200)
            #expect(await failure { try await Neighbour().startRequest(on: manager) }?.kind == .tls(.untrusted))
        }
        let broken = try DomainTable.make(
            nginx, servers: #"s: { domain: "d", path: "x", method: "GET", tls: { caFile: "/no.pem" } }"#)
        try manager.updateDomains { $0 = broken }
        let error = await failure { try await Row().startRequest(on: manager) }
        #expect(error?.message.contains("(tls of the server \"s\", inline:") == true, "\(error?.message ?? "")")
    }

    /// A call that waits for the network is sent again, whichever level sets the TLS that its server needs.
    @Test(arguments: ["domain", "server", "call"])
    func callWithTLSOfItsOwnWaitsForTheNetwork(level: String) async throws {
        let tls = "tls: { caFile: \"\(authority)\" }"
        let table = try DomainTable.make(
            nginx, domain: level == "domain" ? tls : "",
            servers: #"s: { domain: "d", path: "empty.bin", method: "GET", \#(level == "server" ? tls : "") }"#)
        let sent = Counter()
        let manager = try CentralRequestManager.make(table) {
            $0.reachability.waitsForConnectivity = true
            $0.networkInterceptors = [
                Failing { sent.next() == 1 ? NetworkError(.connect, message: "the network is down") : nil }
            ]
        }
        var call = Row().timeout(.seconds(30))
        if level == "call" { call = call.setting(\.tls, HTTPRequest.TLS(caFile: authority)) }
        #expect(try await call.reply(on: manager).response.status == 200)
        #expect(sent.value == 2)
    }

    private struct Failing: Interceptor {
        let error: @Sendable () -> NetworkError?

        func intercept(
            _ request: HTTPRequest, next: @Sendable (HTTPRequest) async throws -> HTTPResponse
        ) async throws -> HTTPResponse {
            if let error = error() { throw error }
            return try await next(request)
        }
    }

    // MARK: Under load

    private struct Order: RequestEntity, Encodable {
        typealias Model = Empty
        static let route = Route(server: "s")
        var day = Date(timeIntervalSince1970: 1_000_000_000)
    }

    /// A table whose parts all show its version.
    private func version(_ name: String, dates: String, at url: String) throws -> DomainTable {
        let file = try directory.write(try Data(contentsOf: URL(filePath: authority)), to: "\(name).pem")
        return try .make(
            url,
            domain: """
                tls: { caFile: "\(file)" }, authenticator: "\(name)", dates: "\(dates)", headers: { "X-Version": "\(name)" }
                """, servers: #"s: { domain: "d", path: "x", method: "POST" }"#)
    }

    private struct Named: Authenticator {
        let name: String

        func apply(to request: inout HTTPRequest) { request.headers["Authorization"] = name }
    }

    @Test func callsUnderLoadSeeWholeRows() async throws {
        let server = try MockServer()
        server.fallback { _ in .status(204) }
        let url = "\(nginx)/to/\(server.port)"
        let tables = [
            try version("a", dates: "unixSeconds", at: url), try version("b", dates: "unixMilliseconds", at: url),
        ]
        let trusts = Log<[String?]>()
        let watching = Watching { trusts.append([$0.headers["X-Version"], $0.tls.caFile]) }
        let manager = try CentralRequestManager.make(tables[0]) {
            $0.authenticators = ["a": Named(name: "a"), "b": Named(name: "b")]
            $0.networkInterceptors = [watching]
            $0.maxConnectionsPerHost = 64
        }
        let (done, ended) = (Event(), Counter())
        try await withThrowingTaskGroup(of: Void.self) { group in
            for _ in 0..<64 {
                group.addTask {
                    while !done.hasHappened {
                        _ = try await Order().startRequest(on: manager)
                        ended.next()
                    }
                }
            }
            group.addTask {
                defer { done.happen() }
                for change in 1...50 {
                    let goal = ended.value + 64
                    try manager.updateDomains { $0 = tables[change % 2] }
                    try await eventually { ended.value >= goal }
                }
            }
            try await group.waitForAll()
        }
        let bodies = ["a": #"{"day":1000000000}"#, "b": #"{"day":1000000000000}"#]
        for request in server.requests {
            let version = request.headers["X-Version"] ?? ""
            #expect(request.headers["Authorization"] == version)
            #expect(String(decoding: request.body, as: UTF8.self) == bodies[version])
        }
        for trust in trusts.elements { #expect(trust[1] == directory.path(of: "\(trust[0] ?? "").pem")) }
        #expect(Set(server.requests.compactMap { $0.headers["X-Version"] }) == ["a", "b"])
    }

    private struct Watching: Interceptor {
        let watch: @Sendable (HTTPRequest) -> Void

        func intercept(
            _ request: HTTPRequest, next: @Sendable (HTTPRequest) async throws -> HTTPResponse
        ) async throws -> HTTPResponse {
            watch(request)
            return try await next(request)
        }
    }
}
