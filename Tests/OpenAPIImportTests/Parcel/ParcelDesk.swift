// Made by lat openapi import from Parcel API (parcels.yaml). Change the document or the overrides, and import again.
import LATNetworking

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
