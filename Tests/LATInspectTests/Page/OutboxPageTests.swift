import FoundationEssentials
import LATInspect
import LATNetworking
import LATTesting
import TestSupport
import Testing

/// The entries of outboxes on the page.
@Suite(.timeLimit(.minutes(2))) struct OutboxPageTests {
    private let folder: TemporaryDirectory
    private let inspected: InspectedManager
    private let outbox: Outbox

    init() throws {
        folder = try TemporaryDirectory()
        inspected = try InspectedManager()
        outbox = try Outbox(folder: folder.path(of: "outbox"), manager: inspected.manager)
    }

    /// A dead letter, and an entry that waits.
    private func fill() async throws -> (dead: Outbox.Entry.ID, waiting: Outbox.Entry.ID) {
        inspected.server.enqueue(.status(422), .status(503).header("Retry-After", "3600"))
        let server = inspected.server
        let dead = try await outbox.add(
            HTTPRequest("POST", server.url("/orders"), body: .json(["name": "<b>x</b>"])), group: "<i>shop</i>")
        try await outbox.waitUntilSent()
        let waiting = try await outbox.add(HTTPRequest("PUT", server.url("/position?pin=1")), expires: .seconds(7_200))
        try await eventually { try await outbox.entry(waiting)?.nextAttempt != nil }
        return (dead, waiting)
    }

    @Test func pageGetsEntriesAndCounts() async throws {
        let nothing = try await inspected.ask("GET", "/outbox")
        #expect(nothing.status == 200 && String(decoding: nothing.body.data ?? Data(), as: UTF8.self) == "[]")
        inspected.inspector.observe(outbox)
        let (dead, waiting) = try await fill()
        let box = try JSONValue(parsing: try await inspected.ask("GET", "/outbox").body.data ?? Data())[0]
        #expect(box["waiting"].int == 1 && box["dead"].int == 1 && box["isSender"].bool == true)
        #expect(box["failed"].int == 2 && box["sent"].int == 0 && box["oldest"].double != nil)
        let entries = box["entries"].array ?? []
        #expect(entries.map { $0["id"].int64 } == [dead, waiting])
        #expect(entries.map { $0["state"].string } == ["refused", "waiting"])
        #expect(entries[0]["group"].string == "<i>shop</i>" && entries[0]["status"].int == 422)
        #expect(entries[1]["next"].double != nil && entries[1]["expires"].double != nil)
        // Only who has the key may read it.
        let central = try CentralRequestManager(configuration: CentralRequestManager.Configuration())
        #expect(try await central.send(HTTPRequest("GET", inspected.url("/outbox"))).status == 401)
        await outbox.close()
    }

    @Test func pageRetriesAndDropsEntries() async throws {
        inspected.inspector.observe(outbox)
        let (dead, waiting) = try await fill()
        let box = try JSONValue(parsing: try await inspected.ask("GET", "/outbox").body.data ?? Data())[0]
        let folder = try #require(box["folder"].string)
        func change(_ id: Int64, _ action: String, in folder: String) async throws -> HTTPResponse {
            let body: JSONValue = ["folder": .string(folder), "id": .int(id), "action": .string(action)]
            return try await inspected.ask("POST", "/outbox", body: String(decoding: body.data(), as: UTF8.self))
        }
        #expect(try await change(dead, "remove", in: folder).status == 400)
        #expect(try await change(dead, "drop", in: "/tmp").status == 404)
        // A page of another origin, and one without the key.
        let central = try CentralRequestManager(configuration: CentralRequestManager.Configuration())
        for headers in [[:], ["Authorization": "Bearer \(inspected.token)", "Origin": "http://h"]] as [HTTPHeaders] {
            let body = #"{"folder":"\#(folder)","id":\#(dead),"action":"drop"}"#
            let request = HTTPRequest("POST", inspected.url("/outbox"), headers: headers, body: .text(body))
            #expect([401, 403].contains(try await central.send(request).status))
        }
        #expect(try await outbox.entries.map(\.id) == [dead, waiting])
        // Its server has asked for an hour.
        #expect(try await change(dead, "retry", in: folder).status == 200)
        #expect(try await outbox.entry(dead)?.state == .waiting)
        for id in [dead, waiting] { #expect(try await change(id, "drop", in: folder).status == 200) }
        #expect(try await outbox.entries.isEmpty)
        let gone = try await change(waiting, "retry", in: folder)
        #expect(gone.status == 409 && gone.text?.contains("has no entry \(waiting)") == true)
        await outbox.close()
    }

    @Test(.needsChromium) func pageShowsEntriesAsTheyChange() async throws {
        inspected.inspector.observe(outbox)
        let (dead, _) = try await fill()
        let trigger = try MockServer()
        trigger.fallback { [outbox] _ in
            Task { try await outbox.drop(dead) }
            return .status(204)
        }
        let result = try await PageBrowser.run("outbox", inspected.address, trigger.url(), folder: folder)
        let (before, after) = (try #require(result["before"].string), try #require(result["after"].string))
        #expect(before.contains("1 waiting") && before.contains("1 dead") && before.contains("this process sends"))
        #expect(before.contains("refused · 422") && before.contains("<i>shop</i>") && before.contains("/orders"))
        #expect(after.contains("0 dead") && !after.contains("/orders") && after.contains("/position"))
        #expect(result["armed"].string == "Drop for good" && result["isFocused"].bool == true)
        #expect(try await outbox.entries.isEmpty)
        await outbox.close()
    }
}
