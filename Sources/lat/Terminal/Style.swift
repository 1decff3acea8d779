/// Colours, where they may be used. They are the terminal's own, so they fit its background.
struct Style: Hashable, Sendable {
    let isColoured: Bool
    let isUnicode: Bool

    /// No colours.
    static let plain = Style(isColoured: false, isUnicode: true)

    init(isColoured: Bool, isUnicode: Bool) {
        self.isColoured = isColoured
        self.isUnicode = isUnicode
    }

    init(_ terminal: Terminal) {
        self.init(isColoured: terminal.hasColour, isUnicode: terminal.isUnicode || !terminal.isTerminal)
    }

    func bold(_ text: String) -> String { painted(text, "1") }
    func dim(_ text: String) -> String { painted(text, "2") }
    func red(_ text: String) -> String { painted(text, "31") }
    func green(_ text: String) -> String { painted(text, "32") }
    func yellow(_ text: String) -> String { painted(text, "33") }
    func blue(_ text: String) -> String { painted(text, "34") }
    func cyan(_ text: String) -> String { painted(text, "36") }

    /// A sign, or its ASCII stand-in.
    func sign(_ unicode: String, _ ascii: String) -> String { isUnicode ? unicode : ascii }

    private func painted(_ text: String, _ code: String) -> String {
        isColoured ? "\u{1B}[\(code)m\(text)\u{1B}[0m" : text
    }
}
