internal import HTTPCore

/// Decides what each request gets, from the entries of a cassette and which of them were used. A pure value.
struct CassettePlayback {
    enum Decision {
        /// The request gets this entry.
        case replay(CassetteEntry)
        /// The request is sent, and recorded as the entry of this number.
        case record(Int)
        /// The request fails with this message.
        case refuse(String)
    }

    let mode: Cassette.Mode
    let matching: Cassette.Matching
    /// Whether no file was read: there was none, or the mode is `all`.
    let isNew: Bool
    private(set) var recorded: [CassetteEntry]
    private let forms: [ComparableRequest]
    private var isUsed: [Bool]
    /// What this run records; `nil` while an exchange is under way.
    private var added: [CassetteEntry?] = []

    init(_ entries: [CassetteEntry]?, mode: Cassette.Mode, matching: Cassette.Matching) {
        self.mode = mode
        self.matching = matching
        isNew = entries == nil
        recorded = entries ?? []
        forms = recorded.map { ComparableRequest($0.request, matching) }
        isUsed = recorded.map { _ in false }
    }

    private var records: Bool {
        switch mode {
        case .none: false
        case .once: isNew
        case .new, .all: true
        }
    }

    /// Whether this run has recorded an exchange.
    var hasAdded: Bool { added.contains { $0 != nil } }

    /// The entries of the file after this run.
    var entries: [CassetteEntry] { recorded + added.compactMap { $0 } }

    /// The recorded requests that were not made.
    var unused: [CassetteEntry] { zip(recorded, isUsed).filter { !$1 }.map(\.0) }

    mutating func decide(_ request: CassetteEntry.Request) -> Decision {
        let asked = ComparableRequest(request, matching)
        let candidates = forms.indices.filter { !isUsed[$0] }
        let eligible = matching.order ? candidates.prefix(1) : candidates[...]
        if let index = eligible.first(where: { asked.matches(forms[$0]) }) {
            isUsed[index] = true
            return .replay(recorded[index])
        }
        if records {
            added.append(nil)
            return .record(added.count - 1)
        }
        return .refuse(refusal(request, asked))
    }

    mutating func finish(_ number: Int, _ entry: CassetteEntry) { added[number] = entry }

    private func refusal(_ request: CassetteEntry.Request, _ asked: ComparableRequest) -> String {
        let title = "\(request.method) \(request.url)"
        let how = mode == .none ? "record it with the mode new" : "record it with the mode new, or delete the file"
        guard !recorded.isEmpty else {
            return "the cassette is empty or does not exist, and \(title) is requested; \(how)"
        }
        let equal = forms.indices.filter { asked.matches(forms[$0]) }
        if !equal.isEmpty, equal.allSatisfy({ isUsed[$0] }) {
            let times = equal.count == 1 ? "once" : "\(equal.count) times"
            return
                "\(title) was recorded \(times) (line \(recorded[equal[0]].line)), and is requested again; \(how)"
        }
        if matching.order, let next = forms.indices.first(where: { !isUsed[$0] }) {
            let lines = asked.differences(from: forms[next]).joined(separator: "; ")
            return "\(title) is not the next request, which is in line \(recorded[next].line): "
                + "\(recorded[next].title) (\(lines))"
        }
        // Of two equally near entries, names the unused one, which helps the reader more.
        let nearest = forms.indices.min { distance(asked, $0) < distance(asked, $1) } ?? 0
        let lines = asked.differences(from: forms[nearest]).joined(separator: "; ")
        return "\(title) is not recorded; the nearest is in line \(recorded[nearest].line): \(recorded[nearest].title) "
            + "(\(lines)); \(how)"
    }

    private func distance(_ asked: ComparableRequest, _ index: Int) -> Int {
        let form = forms[index]
        let path = zip(asked.path, form.path).prefix { $0 == $1 }.count
        let differences = asked.differences(from: form).count * 100
        return differences + (asked.origin == form.origin ? 0 : 1_000) + (asked.path == form.path ? 0 : 500 - path)
            + (isUsed[index] ? 1 : 0)
    }
}
