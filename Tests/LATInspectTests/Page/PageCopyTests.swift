import FoundationEssentials
import LATTesting
import TestSupport
import Testing

@testable import LATInspect

/// Requests that are copied from the page, and calls that a page of several programs has not got.
@Suite(.timeLimit(.minutes(2))) struct PageCopyTests {
    @Test func formIsCopiedAsItsParts() async throws {
        let inspected = try InspectedManager()
        inspected.server.fallback { _ in .text("x") }
        let files = [UploadFile(name: "doc", fileName: "it's.bin", data: Data([0, 255]))]
        _ = try await inspected.manager.startRequest(
            "POST", inspected.server.url("/form"), parameters: ["name": "Ada"], files: files)
        let id = "\(try await inspected.stream(calls: 1).first?["id"].int ?? 0)"
        func copy(_ form: String) async throws -> String {
            try await inspected.ask("GET", "/calls/\(id)/copy?as=\(form)").text ?? ""
        }
        let curl = try await copy("curl")
        #expect(curl.contains(#"-F 'name="Ada"'"#) && curl.contains(#"-F 'doc=@"it'\''s.bin""#), "\(curl)")
        #expect(!curl.contains("boundary") && !curl.contains("--data"))
        for form in ["swift", "entity"] {
            let code = try await copy(form)
            #expect(code.contains(#".multipart([UploadFile(name: "name", data: Data("Ada".utf8)), "#), "\(code)")
            #expect(code.contains(#"path: "it's.bin""#) && !code.contains("boundary"))
        }
        #expect(try await copy("httpie").contains("\ncurl -H"))
    }

    @Test(arguments: [
        (
            #""mimeType":"application/x-www-form-urlencoded","params":[{"name":"a","value":"1 2"},{"name":"ü","value":"&"}]"#,
            "--data-raw 'a=1%202&%C3%BC=%26'"
        ),
        (
            #""mimeType":"multipart/form-data; boundary=b","params":[{"name":"a","value":"1"},{"name":"f","fileName":"x.png"}]"#,
            #"-F 'a="1"' -F 'f=@"x.png""#
        ),
        (
            #""mimeType":"multipart/form-data; boundary=b","params":[{"name":"a","value":"1"}],"text":"--b\r\n\r\n1\r\n--b--\r\n""#,
            "--data-raw $'--b\\015\\012"
        ),
        (
            #""mimeType":"text/plain","text":"","comment":"not kept: the file up.txt""#,
            "# The file says of this body: not kept: the file up.txt.\ncurl"
        ),
    ]) func bodyOfAFileIsCopiedAsItIs(_ posted: String, _ expected: String) async throws {
        let request = #"{"method":"POST","url":"http://a.test/","headers":[],"postData":{\#(posted)}}"#
        let copy = try await InspectedManager().ask("POST", "/copy?as=curl", body: request)
        #expect(copy.text?.contains(expected) == true, "\(copy.text ?? "")")
    }

    // MARK: Sessions

    private func record(_ id: UInt64) -> CallRecord {
        CallRecord(
            id: id, startTime: .now, request: .init(method: "GET", url: "http://a.test/", headers: [], body: nil))
    }

    @Test func callsThatNobodyGotAreCounted() {
        let calls = InspectedCalls(countLimit: 10, byteLimit: 1 << 30, capture: .none)
        let reader = calls.addReader()
        for id in 1...25 as ClosedRange<UInt64> { calls.put(record(id)) }
        #expect(calls.missed(by: reader) == 15 && calls.missed(by: reader) == 0)
        #expect(calls.changes(for: reader, limit: 250).count == 10)
        calls.put(record(26))
        // The oldest was read before it had to go.
        #expect(calls.missed(by: reader) == 0)
        calls.noteMissed(3)
        #expect(calls.lostCount == 19)
    }

    @Test func sessionTellsTheCallsThatItHasNotGot() async throws {
        let directory = try TemporaryDirectory()
        let path = directory.path(of: "socket")
        let session = try InspectorSession(path: path, title: "test", port: 0)
        defer { session.stop() }
        let calls = InspectedCalls(countLimit: 10, byteLimit: 1 << 30, capture: .none)
        let writer = try SessionWriter(calls, program: "program", path: path)
        for id in 1...2_000 as ClosedRange<UInt64> { calls.put(record(id)) }
        try await eventually("each call is there, or told to be lost") {
            session.callCount + session.lostCount == 2_000
        }
        let comment = try JSONValue(parsing: session.har())["log"]["comment"].string
        #expect(comment == "\(session.lostCount) more calls were made, which were not kept")
        withExtendedLifetime(writer) {}
    }
}
