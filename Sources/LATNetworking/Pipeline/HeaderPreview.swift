import HTTPCore

/// What the app's interceptors were shown of a request's headers, and which of them were the request's own.
///
/// The provider's headers come between the rows' and the request's own, and only after the interceptors. So what was
/// shown has to be told apart from what the interceptors changed.
struct HeaderPreview: Sendable {
    /// The headers of the entity or call, without what was laid under them.
    let own: HTTPHeaders
    /// All that was shown.
    let shown: HTTPHeaders

    /// The request's own headers, and over them what was changed of those shown.
    func own(in headers: HTTPHeaders) -> HTTPHeaders {
        guard headers != shown else { return own }
        var changes = HTTPHeaders()
        for name in Set((headers.fields + shown.fields).map { $0.name.lowercased() }) {
            let values = headers[values: name]
            guard values != shown[values: name] else { continue }
            changes[name] = nil
            for value in values { changes.append(name, value) }
        }
        return own.merging(changes)
    }
}
