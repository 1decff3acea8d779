import FoundationEssentials
import LATInspect
import LATTesting
import TestSupport
import Testing

@testable import LATClient

/// A secret in any place of a call is in no output, unless Documentation/Trust.md names the exception.
@Suite(.timeLimit(.minutes(5))) struct CanaryTests {
    /// The places that can hold a canary, of both kinds.
    static let cells = Canary.all.flatMap { canary in
        CanaryPlace.all.filter { !$0.isPlain || canary.text == Canary.plain.text }.map { (canary, $0) }
    }

    @Test(arguments: cells) func secretIsShownNowhere(_ canary: Canary, _ place: CanaryPlace) async throws {
        let outputs = try await outputs(of: place, canary)
        let shown = outputs.filter { Canary.isFound(in: $0.text) }
        for output in shown where place.exceptions[output.name] == nil {
            Issue.record("\(output.name) shows the secret: \(String(decoding: output.text, as: UTF8.self))")
        }
        for name in place.exceptions.keys {
            #expect(shown.contains { $0.name == name }, "\(name) does not show it any more: delete the exception")
        }
    }

    /// What `lat -v` prints of a request, and the file of `--har`.
    @Test(arguments: Canary.all) func secretIsNotInTheTraceOfLat(_ canary: Canary) async throws {
        let server = try MockServer()
        server.fallback { _ in
            MockReply(status: 204).header("X-Auth-Token", canary.text)
                .header("Link", "</?token=\(canary.escaped)>; rel=next")
        }
        for words in [
            ["-H", "Authorization: Bearer \(canary.text)"], ["-H", "X-Api-Key: \(canary.text)"],
            ["--bearer", canary.text],
            ["-u", "user:\(canary.text)"], ["-H", "X-Link: https://u:\(canary.escaped)@h/?sig=\(canary.escaped)"],
            ["-H", "X-JSON: {\"token\":\(canary.json)}"], ["-f", "password=\(canary.text)"], ["token=\(canary.text)"],
            ["access_token==\(canary.text)"], ["next==https://u:\(canary.escaped)@h/?token=\(canary.escaped)"],
        ] {
            let folder = try TemporaryDirectory()
            let result = try await LatProcess.run(
                ["POST", server.url("/x"), "-v", "--har", folder.path(of: "a.har")] + words)
            #expect(result.exitCode == 0 && result.err.contains("> POST /x"), "\(result.err)")
            #expect(
                !Canary.isFound(in: result.err.utf8) && !Canary.isFound(in: folder.read("a.har") ?? Data()), "\(words)")
        }
    }

    /// The search finds the canary where it is: without a list of secrets, the outputs of most places contain it.
    @Test func withoutAListTheSecretIsFound() async throws {
        var count = 0
        for place in CanaryPlace.all {
            var place = place
            place.change = { [change = place.change] in
                try change(&$0, $1, $2)
                $0.secrets = Secrets()
            }
            let outputs = try await outputs(of: place, .plain)
            if outputs.contains(where: { Canary.isFound(in: $0.text) }) { count += 1 }
        }
        #expect(count > CanaryPlace.all.count * 2 / 3, "\(count) of \(CanaryPlace.all.count)")
    }

    @Test func canaryIsFoundInEveryNotation() {
        for canary in Canary.all {
            let json = canary.json
            for text in [
                canary.text, canary.escaped, canary.escaped.percentEncodedComponent, canary.basic, json,
                JSONValue.string(json).description,
                "X: \(canary.text.utf8.map { "\\x" + String($0, radix: 16) }.joined())",
                "$'\(canary.text.utf8.map { "\\" + String(0o1000 + Int($0), radix: 8).dropFirst() }.joined())'",
                Data(CanaryPlace.utf16(canary.text)).base64EncodedString(), Canary.gzip.base64EncodedString(),
            ] { #expect(Canary.isFound(in: text.utf8), "\(text)") }
        }
        #expect(!Canary.isFound(in: "a=1&token=***&b=%2A%2A%2A \\u002a AAECAwQFBgcICQ==".utf8))
    }

    // MARK: Outputs

    private typealias Output = (name: String, text: Data)

    private func outputs(of place: CanaryPlace, _ canary: Canary) async throws -> [Output] {
        try await observed(place, canary) + recorded(place, canary)
    }

    private func configuration(
        of place: CanaryPlace, _ canary: Canary
    ) throws -> (CentralRequestManager.Configuration, MockServer) {
        let server = try MockServer()
        let isFirst = Log<Int>()
        server.fallback { request in
            isFirst.append(0)
            return isFirst.elements.count == 1 ? place.answer(request, canary) : .json("{}")
        }
        var configuration = CentralRequestManager.Configuration()
        configuration.networkInterceptors = [FailingInterceptor()]
        configuration.proxy = .direct
        try place.change(&configuration, server, canary)
        return (configuration, server)
    }

    /// All accessories at one call.
    private func observed(_ place: CanaryPlace, _ canary: Canary) async throws -> [Output] {
        var (configuration, server) = try configuration(of: place, canary)
        let collector = try MockServer()
        collector.fallback { _ in .json("{}") }
        let (summary, full, curl, json) = (Log<String>(), Log<String>(), Log<String>(), Log<String>())
        let (records, har, metrics, inspector) = (Records(), HARRecorder(), Metrics(), Inspector())
        let traces = try TraceExporter(collector.baseURL, service: "test")
        let address = try inspector.start()
        defer { inspector.stop() }
        configuration.accessories = [
            RequestLog(.summary) { summary.append($0) }, RequestLog(.full) { full.append($0) },
            RequestLog(.curl) { curl.append($0) }, RequestLog(.json) { json.append($0) }, records.recorder(), har,
            metrics, inspector, traces,
        ]
        let manager = try CentralRequestManager(configuration: configuration)
        var outputs: [Output] = []
        do {
            let response = try await place.send(manager, server, canary)
            outputs.append(("HTTPResponse", descriptions(response as Any)))
        } catch let error as NetworkError {
            // Some of the calls fail, and are recorded all the same.
            outputs.append(("NetworkError", descriptions(error)))
        }
        try await eventually { manager.runningRequests() == 0 }
        await traces.flush()
        for (name, log) in [
            ("RequestLog(.summary)", summary), ("RequestLog(.full)", full), ("RequestLog(.curl)", curl),
            ("RequestLog(.json)", json),
        ] {
            outputs.append((name, Data(log.elements.joined(separator: "\n").utf8)))
        }
        outputs.append(("CallRecord", try JSONEncoder().encode(records.all)))
        outputs.append(("HAR", try har.data()))
        outputs.append(("metrics", Data((await metrics.text(.openMetrics)).utf8)))
        let count = records.all.count
        if count > 0 {
            let reader = PageReader(address: address)
            outputs.append(("inspector", Data(try await reader.everything(calls: count).utf8)))
        }
        outputs.append(("OTLP", Data(collector.requests.map(\.text).joined().utf8)))
        return outputs
    }

    /// The same call with a cassette in place of the engine.
    private func recorded(_ place: CanaryPlace, _ canary: Canary) async throws -> [Output] {
        var (configuration, server) = try configuration(of: place, canary)
        let folder = try TemporaryDirectory()
        let cassette = try Cassette("calls", in: folder.path, mode: .all, engine: configuration.engine)
        configuration.transport = cassette
        let manager = try CentralRequestManager(configuration: configuration)
        do { _ = try await place.send(manager, server, canary) } catch is NetworkError {}
        try await eventually { manager.runningRequests() == 0 }
        try cassette.eject()
        // A call that fails before it is sent leaves no file.
        var text = folder.read("calls.yaml") ?? Data()
        let bodies = folder.path(of: "calls.bodies")
        for name in (try? FileManager.default.contentsOfDirectory(atPath: bodies)) ?? [] {
            text += folder.read("calls.bodies/\(name)") ?? Data()
        }
        return [("cassette", text)]
    }

    private func descriptions(_ value: Any) -> Data {
        var text = "\(value)\n\(String(reflecting: value))\n"
        dump(value, to: &text)
        return Data((text + ((value as? any Error)?.localizedDescription ?? "")).utf8)
    }
}
