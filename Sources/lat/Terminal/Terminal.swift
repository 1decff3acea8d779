import FoundationEssentials
import Glibc

/// What the far end of a descriptor can show.
struct Terminal: Hashable, Sendable {
    /// Whether a person looks at it.
    var isTerminal: Bool
    /// Whether colours may be used: not with `NO_COLOR` or `TERM=dumb`.
    var hasColour: Bool
    /// Whether a line can be drawn over: not with `TERM=dumb`.
    var canRedraw: Bool
    /// Whether more than ASCII can be shown.
    var isUnicode: Bool

    /// A file or a pipe.
    static let none = Terminal(isTerminal: false, hasColour: false, canRedraw: false, isUnicode: true)

    init(isTerminal: Bool, hasColour: Bool, canRedraw: Bool, isUnicode: Bool) {
        self.isTerminal = isTerminal
        self.hasColour = hasColour
        self.canRedraw = canRedraw
        self.isUnicode = isUnicode
    }

    /// Decides from the environment.
    init(isTerminal: Bool, environment: [String: String]) {
        let isDumb = environment["TERM"].map { $0 == "dumb" || $0.isEmpty } ?? true
        // https://no-color.org: set and not empty.
        let isPlain = environment["NO_COLOR"].map { !$0.isEmpty } ?? false
        let locale = ["LC_ALL", "LC_CTYPE", "LANG"].lazy.compactMap { environment[$0] }.first { !$0.isEmpty } ?? ""
        let charset = locale.lowercased()
        self.init(
            isTerminal: isTerminal, hasColour: isTerminal && !isDumb && !isPlain, canRedraw: isTerminal && !isDumb,
            isUnicode: charset.contains("utf-8") || charset.contains("utf8"))
    }

    /// The columns of the terminal behind a descriptor, 80 when it does not say.
    static func width(of descriptor: Int32) -> Int {
        var size = winsize()
        guard ioctl(descriptor, UInt(TIOCGWINSZ), &size) == 0, size.ws_col > 0 else { return 80 }
        return Int(size.ws_col)
    }
}
