internal import FoundationEssentials
internal import HTTPCore
internal import LATNetworking
internal import Synchronization

/// Sends a request of the page again, after the reader has changed it. The page shows the new call, too.
///
/// It has a manager of its own, with standard settings: the app's authenticators and certificates are not used.
final class Resender: Sendable {
    private let calls: InspectedCalls
    private let manager = Mutex<CentralRequestManager?>(nil)

    init(_ calls: InspectedCalls) { self.calls = calls }

    /// The request as the page writes it.
    private struct Edited: Decodable {
        var method: String
        var url: String
        var headers: [[String]]
        var body: String
        /// A body that is not text, in place of `body`.
        var base64: String?
    }

    /// Answers `/resend`: starts the call, and does not wait for its response.
    func answer(_ request: LoopbackServer.Request) async -> LoopbackServer.Response {
        guard let edited = try? JSONDecoder().decode(Edited.self, from: request.body) else {
            return LoopbackServer.Response(status: 400, "The body has to be JSON with method, url, headers and body.")
        }
        if let problem = Self.problem(in: edited) { return LoopbackServer.Response(status: 400, problem) }
        var sent = HTTPRequest(edited.method, edited.url)
        for field in edited.headers where field.count == 2 && !Self.isOwn(field[0]) {
            sent.headers.append(field[0], field[1])
        }
        let body = edited.base64.flatMap { Data(base64Encoded: $0) } ?? Data(edited.body.utf8)
        if !body.isEmpty { sent.body = .data(body) }
        sent.timeout = .seconds(60)
        do {
            let manager = try usedManager()
            Task { [sent] in _ = try? await manager.send(sent) }
            return LoopbackServer.Response("sent")
        } catch {
            return LoopbackServer.Response(status: 500, "The request cannot be sent: \(error)")
        }
    }

    /// The fields that the engine sets for each request.
    private static func isOwn(_ name: String) -> Bool {
        name.hasPrefix(":")
            || ["host", "content-length", "connection", "accept-encoding", "expect"].contains(name.lowercased())
    }

    /// A secret that the inspector has removed cannot be sent again.
    private static func problem(in edited: Edited) -> String? {
        let fields = edited.headers.map { ($0.first ?? "", $0.last ?? "") }
        let place =
            fields.first { $0.1.contains(Secrets.placeholder) }.map { "the field \($0.0)" }
            ?? (edited.url.contains(Secrets.placeholder) ? "the URL" : nil)
            ?? (edited.body.contains(Secrets.placeholder) ? "the body" : nil)
            ?? (edited.base64.flatMap { Data(base64Encoded: $0) }?.firstRange(of: Data(Secrets.placeholder.utf8))
                .map { _ in "the body" })
        return place.map {
            "\(Secrets.placeholder) in \($0) stands for a secret, which the inspector does not keep: write its value, or delete it."
        }
    }

    private func usedManager() throws -> CentralRequestManager {
        try manager.withLock { manager in
            if let manager { return manager }
            var configuration = CentralRequestManager.Configuration()
            configuration.accessories = [CallFeed(calls)]
            let made = try CentralRequestManager(configuration: configuration)
            manager = made
            return made
        }
    }
}

/// Passes the calls of a manager to the page.
private struct CallFeed: SentHeadObserver {
    let calls: InspectedCalls

    init(_ calls: InspectedCalls) { self.calls = calls }

    func willStart(_ call: ObservedCall) { calls.begin(call) }
    func handle(_ event: CallEvent) { calls.note(event) }
    func didRead(_ chunk: Data, of call: ObservedCall) { calls.note(read: chunk, of: call) }
    func didSend(_ head: SentHead, for call: ObservedCall) { calls.note(sent: head, for: call.id) }
}
