import FoundationEssentials
import LATNetworking
import Testing

@testable import DomainTableFormat

/// The JSON schema, with which editors complete a table, has the same keys as the reader.
@Suite struct SchemaTests {
    private let schema: JSONValue

    init() throws {
        let folder = #filePath.split(separator: "/").dropLast(3).joined(separator: "/")
        schema = try JSONValue(parsing: Data(contentsOf: URL(filePath: "/\(folder)/Config/domains.schema.json")))
    }

    private func keys(_ value: JSONValue?) -> Set<String> { Set((value?["properties"]?.object ?? [:]).keys) }

    @Test func schemaHasTheKeysOfTheReader() {
        let definitions = schema["$defs"]
        let places: [(TableKey.Place, JSONValue?)] = [
            (.table, schema), (.defaults, schema["properties"]["defaults"]), (.domain, definitions["domain"]),
            (.server, definitions["server"]), (.retry, definitions["retry"]),
            (.events, definitions["events"]), (.tls, definitions["tls"]),
            (.limits, definitions["limits"]["oneOf"][1]), (.circuit, definitions["circuit"]["oneOf"][1]),
            (.envelope, definitions["envelope"]["oneOf"][1]),
            (.rate, definitions["limits"]["oneOf"][1]["properties"]["rate"]["oneOf"][1]),
        ]
        for (place, value) in places { #expect(keys(value) == Set(place.keys), "\(place.phrase)") }
        for key in keys(schema["properties"]["defaults"]) { #expect(definitions[key] != nil, "\(key)") }
    }
}
