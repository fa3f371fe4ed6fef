/** Where Elasticsearch is and how to get in. */
export interface ElasticsearchAccess {
  /** `http://` or `https://` URLs of nodes of one cluster, without credentials. */
  readonly urls: readonly string[];
  readonly credentials?: ElasticsearchCredentials;
  /** PEM text of the authority that signed the certificates; default: those Node knows. */
  readonly ca?: string;
}

export type ElasticsearchCredentials =
  | { readonly apiKey: string }
  | { readonly username: string; readonly password: string };

/** For logs: the nodes and nothing secret. */
export function nodesOf({ urls }: ElasticsearchAccess): string {
  return urls.map((url) => new URL(url).host).join(',');
}
