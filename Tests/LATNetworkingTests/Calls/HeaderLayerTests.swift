import FoundationEssentials
import LATTesting
import TestSupport
import Testing

@testable import LATClient

/// Header precedence when interceptors run before the header provider is asked.
@Suite(.timeLimit(.minutes(1))) struct HeaderLayerTests {
    /// The value of one field in each layer; `nil` leaves the field alone.
    struct Layers: Sendable, CustomTestStringConvertible {
        var base: String??
        var provided: String??
        var own: String??
        var expected: String?

        init(_ base: String??, _ provided: String??, _ own: String??, _ expected: String?) {
            (self.base, self.provided, self.own, self.expected) = (base, provided, own, expected)
        }

        var testDescription: String { "\(base as Any), \(provided as Any), \(own as Any)" }

        /// Every combination of leaving a field alone, setting it and removing it.
        static let all: [Layers] = {
            let removal: String?? = .some(nil)
            var all: [Layers] = []
            for base: String?? in [nil, "base", removal] {
                for provided: String?? in [nil, "provided", removal] {
                    for own: String?? in [nil, "own", removal] {
                        all.append(Layers(base, provided, own, (own ?? provided ?? base) ?? nil))
                    }
                }
            }
            return all
        }()

        static func headers(_ value: String??, _ name: String = "F") -> HTTPHeaders {
            var headers = HTTPHeaders()
            if let value { headers[name] = value }
            return headers
        }
    }

    private func merged(
        _ provided: HTTPHeaders, over base: HTTPHeaders, under own: HTTPHeaders,
        changed: (inout HTTPHeaders) -> Void = { _ in }
    ) -> HTTPHeaders {
        var headers = base.marked(as: .base).merging(own.marked(as: .request))
        changed(&headers)
        let layers = headers.layers
        return layers.base.merging(provided).merging(layers.own)
    }

    // MARK: Values

    @Test(arguments: Layers.all) func laterLayerWins(_ layers: Layers) {
        let base = Layers.headers(layers.base)
        let (provided, own) = (Layers.headers(layers.provided, "f"), Layers.headers(layers.own))
        #expect(merged(provided, over: base, under: own)["F"] == layers.expected)
        // The result is the same without interceptors.
        #expect(base.merging(provided).merging(own)["F"] == layers.expected)
    }

    @Test(arguments: Layers.all) func interceptorWinsOverAllLayers(_ layers: Layers) {
        let base = Layers.headers(layers.base)
        let (provided, own) = (Layers.headers(layers.provided), Layers.headers(layers.own))
        #expect(merged(provided, over: base, under: own) { $0["f"] = "changed" }["F"] == "changed")
        if base.contains("F") || own.contains("F") {
            #expect(merged(provided, over: base, under: own) { $0["F"] = nil }["F"] == nil)
            #expect(merged(provided, over: base, under: own) { $0.removeAll { $0 == "F" } }["F"] == nil)
        }
    }

    @Test func interceptorRemovesProvidedField() {
        #expect(merged(["F": "provided"], over: [:], under: [:]) { $0["F"] = nil }["F"] == nil)
    }

    @Test func multipleValuesAreReplacedTogether() {
        let two = HTTPHeaders([("F", "1"), ("F", "2")])
        let three = HTTPHeaders([("f", "a"), ("f", "b"), ("f", "c")])
        #expect(merged(three, over: two, under: [:])[values: "F"] == ["a", "b", "c"])
        #expect(merged(["F": "x"], over: two, under: [:])[values: "F"] == ["x"])
        #expect(merged(three, over: ["F": "x"], under: [:])[values: "F"] == ["a", "b", "c"])
        #expect(merged(three, over: two, under: ["f": "own"])[values: "F"] == ["own"])
        #expect(merged(three, over: [:], under: two)[values: "F"] == ["1", "2"])
        #expect(merged(["f": nil], over: two, under: [:])[values: "F"] == [])
        // An additional value counts as a change.
        #expect(merged(three, over: two, under: [:]) { $0.append("F", "3") }[values: "F"] == ["1", "2", "3"])
        #expect(merged(three, over: two, under: [:]) { $0["F"] = "1" }[values: "F"] == ["1"])
    }

    @Test func otherFieldsAreUnchanged() {
        let base: HTTPHeaders = ["A": "1", "B": "2"]
        let result = merged(["B": "3", "D": "4"], over: base, under: ["C": "5"])
        #expect(Set(result.map { "\($0.name): \($0.value)" }) == ["A: 1", "B: 3", "C: 5", "D: 4"])
        #expect(merged([:], over: base, under: ["C": "5"]) == base.merging(["C": "5"]))
    }

    /// Interceptors that change nothing do not affect the merged headers.
    @Test(arguments: 0..<20 as Range<UInt64>) func passiveInterceptorChangesNoHeaders(_ seed: UInt64) {
        var generator = SeededGenerator(seed: seed)
        func random() -> HTTPHeaders {
            var headers = HTTPHeaders()
            for name in ["A", "b", "C", "d"] {
                switch Int.random(in: 0..<4, using: &generator) {
                case 0: headers[name] = nil
                case 1: headers[name.lowercased()] = "\(Int.random(in: 0..<3, using: &generator))"
                case 2:
                    for _ in 0..<2 { headers.append(name, "\(Int.random(in: 0..<3, using: &generator))") }
                default: break
                }
            }
            return headers
        }
        var wrong: [String] = []
        for _ in 0..<200 {
            let (base, provided, own) = (random(), random(), random())
            let expected = base.merging(provided).merging(own)
            let result = merged(provided, over: base, under: own)
            for name in ["a", "b", "c", "d"] where result[values: name] != expected[values: name] {
                wrong.append("\(name) of \(base.fields) < \(provided.fields) < \(own.fields)")
            }
        }
        #expect(wrong.isEmpty, "\(wrong.count), such as \(wrong.first ?? "")")
    }

    // MARK: On the wire

    private struct Fetch: RequestEntity {
        static let route = Route(server: "s")
        var options = RequestOptions()
    }

    private struct Changing: Interceptor {
        let change: @Sendable (inout HTTPHeaders) -> Void

        func intercept(
            _ request: HTTPRequest, next: @Sendable (HTTPRequest) async throws -> HTTPResponse
        ) async throws -> HTTPResponse {
            var request = request
            change(&request.headers)
            return try await next(request)
        }
    }

    /// Returns the headers sent for an entity when manager, rows, provider and entity all set some.
    private func sent(
        _ change: (@Sendable (inout HTTPHeaders) -> Void)?, shown: Log<HTTPHeaders> = Log()
    ) async throws -> HTTPHeaders {
        let server = try MockServer.answering()
        let table = try DomainTable.make(
            server.url(), domain: #"headers: { "X-Domain": "d", "X-Row": "d", "X-Gone": null }"#,
            servers: #"s: { domain: "d", path: "x", method: "GET", headers: { "X-Row": "r", "X-Back": null } }"#)
        let base: HTTPHeaders = ["X-Manager": "m", "X-Domain": "m", "X-Gone": "m", "X-Both": "m", "X-Back": "m"]
        let provided: HTTPHeaders = [
            "X-Provided": "p", "X-Both": "p", "X-Own": "p", "X-Less": "p", "X-Row": nil, "X-Back": "p",
        ]
        var interceptors: [any Interceptor] = []
        if let change {
            interceptors = [
                Changing { headers in
                    shown.append(headers)
                    change(&headers)
                }
            ]
        }
        let manager = try CentralRequestManager.make(table) { configuration in
            configuration.headers = base
            configuration.headerProvider = { _ in provided }
            configuration.interceptors = interceptors
        }
        var entity = Fetch()
        entity.options.headers = ["X-Own": "o", "X-Less": nil]
        _ = try await entity.startRequest(on: manager)
        return try #require(server.requests.first?.headers)
    }

    private let names = [
        "X-Manager", "X-Domain", "X-Row", "X-Gone", "X-Provided", "X-Both", "X-Own", "X-Less", "X-Back",
    ]

    @Test(arguments: [true, false]) func layersKeepTheirOrderOnTheWire(_ isIntercepted: Bool) async throws {
        let change: @Sendable (inout HTTPHeaders) -> Void = { _ in }
        let headers = try await sent(isIntercepted ? change : nil)
        let expected: [String?] = ["m", "d", nil, nil, "p", "p", "o", nil, "p"]
        #expect(names.map { headers[$0] } == expected)
    }

    @Test func interceptorsSeeBaseAndOwnFields() async throws {
        let shown = Log<HTTPHeaders>()
        _ = try await sent({ _ in }, shown: shown)
        let headers = try #require(shown.elements.first)
        let expected: [String?] = ["m", "d", "r", nil, nil, "m", "o", nil, nil]
        #expect(names.map { headers[$0] } == expected)
    }

    @Test func interceptorsChangesReachTheServer() async throws {
        let headers = try await sent {
            $0["x-both"] = "i"
            $0["X-Provided"] = "i"
            $0["X-Own"] = nil
            $0["X-Manager"] = "i"
            $0["X-Domain"] = nil
            $0["X-New"] = "i"
        }
        #expect(headers["X-Both"] == "i" && headers["X-Provided"] == "i" && headers["X-Manager"] == "i")
        #expect(headers["X-Own"] == nil && headers["X-Domain"] == nil)
        #expect(headers["X-New"] == "i")
    }

    @Test(arguments: [true, false]) func replacedHeadersLeaveOnlyTheRequestsOwn(_ isIntercepted: Bool) async throws {
        let server = try MockServer.answering()
        let manager = try CentralRequestManager.make {
            $0.headers = ["X-Manager": "m"]
            $0.headerProvider = { _ in ["X-Provided": "p"] }
            if isIntercepted { $0.interceptors = [Changing { $0["X-New"] = "i" }] }
        }
        var request = HTTPRequest("GET", server.url(), headers: ["X-Own": "o"])
        request.replacesGlobalHeaders = true
        _ = try await manager.send(request)
        let headers = try #require(server.requests.first?.headers)
        #expect(headers["X-Own"] == "o" && headers["X-Manager"] == nil && headers["X-Provided"] == nil)
        #expect(headers["X-New"] == (isIntercepted ? "i" : nil))
    }
}
