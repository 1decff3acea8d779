// Made by lat openapi import from Parcel API (parcels.yaml). Change the document or the overrides, and import again.
import LATNetworking

/// `GET /label`.
struct ParcelLabel: RequestEntity, Encodable {
    typealias Model = Empty
    static let route = Route(server: "parcel.parcelLabel")
    var session: String
    var csrfToken: Int
    var cookies: Bool?
    var theme: String?

    var options: RequestOptions {
        var options = RequestOptions()
        options.headers.appendCookie("session", session)
        options.headers.appendCookie("csrf-token", "\(csrfToken)")
        if let cookies { options.headers["cookies"] = "\(cookies)" }
        if let theme { options.headers.appendCookie("theme", theme) }
        return options
    }

    private enum CodingKeys: CodingKey {}
}

/// `HEAD /label`.
struct ParcelHint: RequestEntity, Encodable {
    typealias Model = Empty
    static let route = Route(server: "parcel.parcelHint")
    var theme: String?

    var options: RequestOptions {
        var options = RequestOptions()
        if let theme { options.headers.appendCookie("theme", theme) }
        return options
    }

    private enum CodingKeys: CodingKey {}
}

/// `GET /track`.
struct ParcelTrack: RequestEntity, Encodable {
    typealias Model = Empty
    static let route = Route(server: "parcel.parcelTrack")
    var filter: ParcelTrackFilter?
    var plain: ParcelSize?
    var spread: ParcelSize?
    var joined: ParcelSize?
}

/// `POST /notices`.
struct ParcelNotice: RequestEntity, Encodable {
    typealias Model = Empty
    static let route = Route(server: "parcel.parcelNotice")
    var dryRun: Bool
    /// The body.
    var content: [String]?

    var body: HTTPBody? { content.map { .json($0) } }

    private enum CodingKeys: String, CodingKey { case dryRun }
}

/// `PUT /notices`.
struct ParcelScan: RequestEntity, Encodable {
    typealias Model = Empty
    static let route = Route(server: "parcel.parcelScan")
    var dryRun: Bool
    /// The body.
    var content: HTTPBody?

    var body: HTTPBody? { content }

    private enum CodingKeys: String, CodingKey { case dryRun }
}

/// `DELETE /notices`.
struct ParcelRecall: RequestEntity, Encodable {
    typealias Model = Empty
    static let route = Route(server: "parcel.parcelRecall")
    var dryRun: Bool
    var reason: String?
    var ids: [Int]?

    var body: HTTPBody? { .form }
}

/// `POST /orders`.
struct ParcelOrder: RequestEntity, Encodable {
    typealias Model = Empty
    static let route = Route(server: "parcel.parcelOrder")
    var expand: [String]?
    var items: [ParcelItem]?
    var codes: [Int]?
    var words: [String]?
    var note: ParcelSize?
    var size: ParcelSize?
}

/// `POST /shipments`.
struct ParcelShip: RequestEntity, Encodable {
    typealias Model = Empty
    static let route = Route(server: "parcel.parcelShip")
    var photo: UploadFile
    var lid: UploadFile?
    var more: [UploadFile]?
    var ids: [Int]?
    var words: [String]?
    var attributes: ParcelSize?
    var stops: [ParcelSize]?

    var body: HTTPBody? {
        .multipart([photo.named("photo"), lid?.named("lid")].compactMap { $0 } + (more ?? []).map { $0.named("more") })
    }

    private enum CodingKeys: String, CodingKey { case ids, words = "words[]", attributes, stops }
}

/// `POST /trial`.
struct ParcelTrial: RequestEntity {
    typealias Model = Empty
    static let route = Route(server: "parcel.parcelTrial")
}

/// `PUT /trial`.
struct ParcelReal: RequestEntity {
    typealias Model = Empty
    static let route = Route(server: "parcel.parcelReal")
}

/// `DELETE /trial`.
struct ParcelNext: RequestEntity {
    typealias Model = Empty
    static let route = Route(server: "parcel.parcelNext")
}

struct ParcelItem: Codable, Hashable, Sendable {
    var sku: String?
    var count: Int?
    var tags: [String]?
}

struct ParcelSize: Codable, Hashable, Sendable {
    var width: Int?
    var unit: String?
}

struct ParcelTrackFilter: Codable, Hashable, Sendable {
    var ids: [Int]?
    var town: String?
}
