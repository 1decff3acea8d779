import Testing

@testable import HTTPCore

@Suite struct SettingNamesTests {
    @Test func everySettingIsInTheListOfKeys() {
        let declared = Mirror(reflecting: RequestOptions.Values()).children.compactMap(\.label)
        #expect(OptionKey.all.map(\.name).sorted() == declared.sorted())
        #expect(OptionKey.all.allSatisfy { !$0.isSet(in: RequestOptions()) })
    }
}
