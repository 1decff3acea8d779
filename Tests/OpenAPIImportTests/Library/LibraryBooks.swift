// Made by lat openapi import from Library API (library.yaml). Change the document or the overrides, and import again.
import Foundation
import LATNetworking

/// Books of the library.
///
/// `GET /books`. All pages: `call.pages()`. `error.model(of:)`: `LibraryError` for 4XX.
struct ListBooks: RequestEntity, Encodable {
    typealias Model = ListBooksReply
    static let route = Route(server: "library.listBooks")
    var author: String?
    var genres: [Genre]?
    var years: [Int]?
    var after: String?
    var xRequestID: Verbatim<UUID>?

    var options: RequestOptions {
        var options = RequestOptions()
        if let xRequestID { options.headers["X-Request-ID"] = xRequestID.rawValue }
        return options
    }

    private enum CodingKeys: String, CodingKey { case author, genres, years, after }
}

/// Adds a book.
///
/// `POST /books`.
struct AddBook: RequestEntity, Encodable {
    typealias Model = Book
    static let route = Route(server: "library.addBook")
    /// The title as on the cover.
    var title: String
    var dryRun: Bool?
    var idempotencyKey: String?
    var genre: Genre?
    var published: Timestamp.Day?
    var addedAt: Timestamp?
    var price: Decimal?
    var cover: String?
    /// Who wrote it.
    var author: Author?
    var secret: String?

    var options: RequestOptions {
        var options = RequestOptions()
        if let idempotencyKey { options.idempotencyKey = idempotencyKey }
        return options
    }

    private enum CodingKeys: String, CodingKey {
        case title, dryRun = "dry_run", genre, published, addedAt = "added_at", price, cover, author, secret
    }

    func encode(to encoder: any Encoder) throws {
        var members = encoder.container(keyedBy: CodingKeys.self)
        try members.encode(self.title, forKey: .title)
        try members.encodeIfPresent(self.dryRun, forKey: .dryRun)
        try members.encodeIfPresent(self.genre, forKey: .genre)
        try members.encodeIfPresent(self.published, forKey: .published)
        try members.encodeIfPresent(self.addedAt, forKey: .addedAt)
        try members.encodeIfPresent(self.price, forKey: .price)
        try members.encode(self.cover, forKey: .cover)
        try members.encodeIfPresent(self.author, forKey: .author)
        try members.encodeIfPresent(self.secret, forKey: .secret)
    }
}

/// `PUT /books/{id}/cover`.
struct SetCover: RequestEntity, Encodable {
    typealias Model = Empty
    static let route = Route(server: "library.setCover")
    var id: Verbatim<UUID>
    /// The body.
    var content: HTTPBody?

    var body: HTTPBody? { content }

    private enum CodingKeys: String, CodingKey { case id }
}

/// `POST /books/{id}/cover`.
struct UploadCover: RequestEntity, Encodable {
    typealias Model = Empty
    static let route = Route(server: "library.uploadCover")
    var id: Verbatim<UUID>
    var image: UploadFile
    var caption: String?

    var body: HTTPBody? { .multipart([image.named("image")]) }

    private enum CodingKeys: String, CodingKey { case id, caption }
}

struct Author: Codable, Hashable, Sendable {
    var name: String
    var selfValue: Verbatim<URL>?

    private enum CodingKeys: String, CodingKey { case name, selfValue = "self" }
}

/// A book.
struct Book: Codable, Hashable, Sendable {
    /// The title as on the cover.
    var title: String
    var id: Verbatim<UUID>
    var genre: Genre?
    var published: Timestamp.Day?
    var addedAt: Timestamp?
    var price: Decimal?
    var cover: String?
    /// Who wrote it.
    var author: Author?

    private enum CodingKeys: String, CodingKey {
        case title, id, genre, published, addedAt = "added_at", price, cover, author
    }

    func encode(to encoder: any Encoder) throws {
        var members = encoder.container(keyedBy: CodingKeys.self)
        try members.encode(self.title, forKey: .title)
        try members.encode(self.id, forKey: .id)
        try members.encodeIfPresent(self.genre, forKey: .genre)
        try members.encodeIfPresent(self.published, forKey: .published)
        try members.encodeIfPresent(self.addedAt, forKey: .addedAt)
        try members.encodeIfPresent(self.price, forKey: .price)
        try members.encode(self.cover, forKey: .cover)
        try members.encodeIfPresent(self.author, forKey: .author)
    }
}

struct Genre: KnownValues {
    var rawValue: String

    static let novel = Self(rawValue: "novel")
    static let poetry = Self(rawValue: "poetry")
    static let `default` = Self(rawValue: "default")

    static let knownValues: [Self] = [novel, poetry, `default`]
}

struct LibraryError: Codable, Hashable, Sendable {
    var message: String
}

struct ListBooksReply: Codable, Hashable, Sendable {
    var books: [Book]
    var nextCursor: String?

    private enum CodingKeys: String, CodingKey { case books, nextCursor = "next_cursor" }
}
