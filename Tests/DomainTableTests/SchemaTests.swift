import FoundationEssentials
import LATNetworking
import Testing

@testable import DomainTables

/// The JSON schema, with which editors complete a table, has the same keys as the reader.
@Suite struct SchemaTests {
    private let schema: JSONValue
    private let text: String
    private let page: String

    init() throws {
        let folder = #filePath.split(separator: "/").dropLast(3).joined(separator: "/")
        let data = try Data(contentsOf: URL(filePath: "/\(folder)/Config/domains.schema.json"))
        text = String(decoding: data, as: UTF8.self)
        schema = try JSONValue(parsing: data)
        let distributed = try Data(contentsOf: URL(filePath: "/\(folder)/Documentation/Distributed.md"))
        page = String(decoding: distributed, as: UTF8.self)
    }

    @Test func schemaAndPageAreMadeFromTheKeys() {
        #expect(text == TableSchema.text, "run scripts/table-keys")
        #expect(page.contains(TableSchema.documentation), "run scripts/table-keys")
    }

    private func keys(_ value: JSONValue?) -> Set<String> { Set((value?["properties"]?.object ?? [:]).keys) }

    @Test func schemaHasTheKeysOfTheReader() {
        let definitions = schema["$defs"]
        let limits = definitions["requestLimits"]["oneOf"][1]
        let places: [(TableKey.Place, JSONValue?)] = [
            (.table, schema), (.defaults, schema["properties"]["defaults"]), (.domain, definitions["domain"]),
            (.server, definitions["server"]), (.retry, definitions["retry"]),
            (.events, definitions["events"]), (.documented, definitions["documented"]), (.tls, definitions["tls"]),
            (.digests, definitions["digests"]),
            (.limits, limits), (.circuit, definitions["circuitBreaker"]), (.hedge, definitions["hedgeRule"]),
            (.envelope, definitions["envelopeRule"]),
            (.rate, limits["properties"]["rate"]["oneOf"][1]),
        ]
        for (place, value) in places { #expect(keys(value) == Set(place.keys), "\(place.phrase)") }
        for key in keys(schema["properties"]["defaults"]) { #expect(definitions[key] != nil, "\(key)") }
    }
}
