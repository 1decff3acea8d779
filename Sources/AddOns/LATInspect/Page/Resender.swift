internal import FoundationEssentials
internal import HTTPCore
internal import LATNetworking
internal import Synchronization

/// Sends a request of the page again, after the reader has changed it. The page shows the new call, too.
///
/// A call of this process is sent by its own manager, with the settings of its request: authenticators, certificates, proxies.
/// The calls of other processes are sent with standard settings.
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
        /// The call that is sent again, and which of its requests.
        var call: UInt64?
        var entry: Int?

        var bytes: Data { base64.flatMap { Data(base64Encoded: $0) } ?? Data(body.utf8) }
    }

    /// Answers `/resend`: starts the call, and does not wait for its response.
    func answer(_ request: LoopbackServer.Request) async -> LoopbackServer.Response {
        guard let edited = try? JSONDecoder().decode(Edited.self, from: request.body) else {
            return LoopbackServer.Response(status: 400, "The body has to be JSON with method, url, headers and body.")
        }
        if let problem = Self.problem(in: edited) ?? lostBody(of: edited) {
            return LoopbackServer.Response(status: 400, problem)
        }
        let sender = edited.call.flatMap(calls.sender)
        var sent = HTTPRequest(edited.method, edited.url)
        // The settings hold credentials, certificates and sockets, which are for the server of the call.
        if let sender, URLParts(edited.url).origin == recorded(edited).flatMap({ URLParts($0.url).origin }) {
            sent.options = sender.settings
            // The page shows them among the fields.
            sent.options.headers = HTTPHeaders()
            sent.cachePolicy = .networkOnly
        }
        for field in edited.headers where field.count == 2 && !Self.isOwn(field[0]) {
            sent.headers.append(field[0], field[1])
        }
        if !edited.bytes.isEmpty { sent.body = .data(edited.bytes) }
        if sent.timeout == nil { sent.timeout = .seconds(60) }
        do {
            let manager = try sender?.manager ?? usedManager()
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

    /// The request that was sent before.
    private func recorded(_ edited: Edited) -> CallRecord.Request? {
        guard let id = edited.call, let requests = calls.record(id)?.record.conversation,
            requests.indices.contains(edited.entry ?? 0)
        else { return nil }
        return requests[edited.entry ?? 0].request
    }

    /// Why the kept part of a body cannot be sent in its place; `nil` when the body is whole, or the reader wrote another one.
    private func lostBody(of edited: Edited) -> String? {
        guard let body = recorded(edited)?.body, let note = body.shown.note else { return nil }
        let kept = body.shown.bytes
        let isKept =
            kept.isEmpty
            ? edited.bytes.isEmpty && !["GET", "HEAD"].contains(edited.method)
            : edited.bytes.starts(with: kept.prefix(64)) && Int64(edited.bytes.count) < body.size ?? .max
        guard isKept else { return nil }
        return
            "\(note) What is left of it would not be the same request: write a whole body, or send it from the program."
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
            "\(Secrets.placeholder) in \($0) stands for a secret, which the inspector does not keep: write its value, or delete it, so that the program sets it as it does for its own calls."
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
