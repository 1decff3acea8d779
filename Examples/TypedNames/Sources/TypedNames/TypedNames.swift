import LATNetworking

/// Prints the names that the build plugin made from `Config/domains.json5`, and the URL of each call. Run it in this
/// folder with `swift run TypedNames` or `LAT_ENVIRONMENT=dev swift run TypedNames`.
@main
struct TypedNames {
    static func main() {
        do {
            let table = try DomainTable(contentsOf: "Config/domains.json5")

            // A misspelled member does not compile; try `ServerName.itemDetial`.
            let detail = try table.resolve(server: .itemDetail)
            print("ServerName.itemDetail is \"\(ServerName.itemDetail)\" and goes to \(try detail.url(["id": "42"]))")
            print("DomainName.shop is \"\(DomainName.shop)\"")

            for server in ServerName.all {
                print()
                print(table.explain(server.rawValue))
            }
        } catch {
            print(error)
        }
    }
}
