/// How a list that a server divides into pages is read to its end.
///
/// ```swift
/// for try await page in central.pages("GET", "/users") { print(try page.json()) }            // follows the Link fields
/// for try await page in FetchUser(id: 42).pages(.cursor(at: "meta.next"), on: central) { print(page.model) }
/// ```
///
/// A row of the table says the same with `pages`.
public struct Paging: Sendable, Hashable {
    /// Where the next page is.
    package enum Style: Sendable, Hashable {
        case link(relation: String)
        case address(path: String)
        case cursor(path: String, parameter: String)
        case number(parameter: String, first: Int)
        case offset(parameter: String, first: Int)
    }

    package let style: Style
    /// The place of the array of items in the JSON of a page, empty for the page itself; `nil` when it is not known.
    package var items: String?
    /// The largest number of pages that are read. Default `nil`: all.
    public var limit: Int?
    /// Whether the next page is requested while the app works on the one that it has. If the loop is left early, one page was
    /// requested that nobody reads. It is not requested ahead while the app's work takes less than a tenth of the time that a
    /// page takes, since nothing would be won. Default `true`.
    public var prefetches = true

    package init(_ style: Style, items: String? = nil) {
        self.style = style
        self.items = items
    }

    /// The link with the relation `next` in the fields `Link` (RFC 8288). The last page has none.
    public static var link: Paging { .link(relation: "next") }

    /// The same with another relation.
    package static func link(relation: String) -> Paging { Paging(.link(relation: relation.lowercased())) }

    /// A URL in the body, absolute or relative to that of the page. The last page has none: it is missing, `null` or empty.
    ///
    /// - Parameter path: its place in the JSON of the page; dots separate nested names: `paging.next`.
    public static func address(at path: String) -> Paging { Paging(.address(path: path)) }

    /// A text or a number in the body, which the next request has as a parameter. The last page has none: it is missing,
    /// `null`, `false` or empty.
    ///
    /// - Parameters:
    ///   - path: its place in the JSON of the page, such as `meta.next`.
    ///   - parameter: the name of the parameter. Default `cursor`.
    public static func cursor(at path: String, parameter: String = "cursor") -> Paging {
        Paging(.cursor(path: path, parameter: parameter))
    }

    /// A parameter with the number of the page. The first page without items is the end, and is not delivered unless it is
    /// the first of all.
    ///
    /// - Parameters:
    ///   - parameter: the name of the parameter. Default `page`.
    ///   - first: the number of the page to begin with. Default 1.
    ///   - items: the place of the array in the JSON of the page. Default empty: the page is the array.
    public static func number(_ parameter: String = "page", first: Int = 1, items: String = "") -> Paging {
        Paging(.number(parameter: parameter, first: first), items: items)
    }

    /// A parameter with the number of items before the page. It grows by the number of items that each page has, and ends as
    /// ``number(_:first:items:)`` does.
    ///
    /// - Parameters:
    ///   - parameter: the name of the parameter. Default `offset`.
    ///   - first: the offset to begin with. Default 0.
    ///   - items: the place of the array in the JSON of the page. Default empty: the page is the array.
    public static func offset(_ parameter: String = "offset", first: Int = 0, items: String = "") -> Paging {
        Paging(.offset(parameter: parameter, first: first), items: items)
    }

    /// The same, but reads no more pages than this.
    public func limit(_ pages: Int) -> Paging {
        var paging = self
        paging.limit = pages
        return paging
    }
}
