import FoundationEssentials
import HTTPCore
import LATNetworking

/// Values in events and messages.
enum LiveValue {
    /// Decodes JSON with the rules of the call.
    ///
    /// - Parameter what: what the data is, for the error, such as "a message".
    /// - Throws: `NetworkError` of kind `decoding(path:)`, whose path is the place that did not match.
    static func decode<Model: Decodable>(
        _ model: Model.Type, of data: Data, _ coding: CodingRules?, _ what: @autoclosure () -> String
    ) throws -> Model {
        var response = HTTPResponse(status: 200, body: ResponseBody(data), url: "")
        response.coding = coding
        do {
            return try response.decode(model)
        } catch let error as NetworkError {
            let reason = error.underlying.map { DecodingPath($0).reason } ?? error.message
            var place = ""
            if case .decoding(let path) = error.kind, !path.isEmpty { place = " at \(path)" }
            throw NetworkError(
                error.kind, message: "\(what()) is not \(model)\(place): \(reason)", underlying: error.underlying)
        }
    }
}
