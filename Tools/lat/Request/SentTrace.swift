import FoundationEssentials
import LATNetworking
import Synchronization

/// Shows with `--verbose` each head as it was sent, with the fields that libcurl adds, and the certificate of the receiver.
///
/// With a cassette nothing may be sent, so the requests themselves are shown.
final class SentTrace: SentHeadObserver {
    private let console: Console
    private let hasCassette: Bool
    private let peer = Mutex<TLSPeer?>(nil)

    init(_ console: Console) {
        self.console = console
        hasCassette = ProcessInfo.processInfo.environment["LAT_CASSETTE"].map { !$0.isEmpty } ?? false
    }

    func handle(_ event: CallEvent) {
        guard hasCassette, case .sending(_, let request) = event.kind else { return }
        RequestTrace.lines(of: request, hiding: event.call.secrets, console.errStyle).forEach(console.note)
    }

    /// Writes on the engine's thread, so that the request is shown before its response.
    func didSend(_ head: SentHead, for call: ObservedCall) {
        let isKnown = peer.withLock { peer in
            defer { peer = head.peer }
            return peer == head.peer
        }
        if let peer = head.peer, !isKnown { console.note(RequestTrace.line(of: peer, now: Date(), console.errStyle)) }
        RequestTrace.lines(of: head, hiding: call.secrets, console.errStyle).forEach(console.note)
    }
}

extension RequestTrace {
    /// The head as it was sent, without the values of secret fields and parameters.
    static func lines(of head: SentHead, hiding secrets: Secrets, _ style: Style) -> [String] {
        let words = head.line.split(separator: " ", omittingEmptySubsequences: false).map(String.init)
        let target = words.count == 3 ? secrets.shown(url: words[1]) : nil
        let line = target.map { "\(words[0]) \($0) \(words[2])" } ?? head.line
        let fields = head.fields.map { Self.line($0.name, $0.value, hiding: secrets, style) }
        return ([SafeText.line(line)] + fields).map { style.dim(">") + " " + $0 }
    }

    /// The other end of a connection: `* TLSv1.3 · CN = example.org · issued by CN = CA · 89 days left`.
    static func line(of peer: TLSPeer, now: Date, _ style: Style) -> String {
        let days = Int((peer.validUntil.timeIntervalSince(now) / 86_400).rounded(.down))
        let validity =
            switch days {
            case ..<0: style.red("expired \(TableReport.count(-days, "day")) ago")
            case ..<14: style.magenta("\(TableReport.count(days, "day")) left")
            default: "\(days) days left"
            }
        var facts = [peer.version, peer.subject.isEmpty ? "no subject" : peer.subject, "issued by \(peer.issuer)"]
            .map(SafeText.line)
        facts.append(validity)
        if !peer.isTrusted { facts.append(style.red("not trusted")) }
        return style.dim("*") + " " + facts.joined(separator: style.sign(" · ", ", "))
    }
}
