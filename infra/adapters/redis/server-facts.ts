/** What `INFO` tells of a server that matters here. */
export interface ServerFacts {
  readonly maxmemoryPolicy: string | undefined;
  readonly isClusterNode: boolean;
  readonly writesAppendOnlyFile: boolean;
  readonly replicas: number;
}

export function parseServerFacts(info: string): ServerFacts {
  const fields = new Map(
    info.split('\r\n').flatMap((line) => {
      const colon = line.indexOf(':');
      return colon < 0 ? [] : [[line.slice(0, colon), line.slice(colon + 1)] as const];
    }),
  );
  return {
    maxmemoryPolicy: fields.get('maxmemory_policy'),
    isClusterNode: fields.get('cluster_enabled') === '1',
    writesAppendOnlyFile: fields.get('aof_enabled') === '1',
    replicas: Number(fields.get('connected_slaves') ?? 0),
  };
}

/** What an operator has to change before anything may be kept on this server; undefined when nothing. */
export function faultOf({ maxmemoryPolicy }: ServerFacts): string | undefined {
  if (maxmemoryPolicy === undefined || maxmemoryPolicy === 'noeviction') return undefined;
  return (
    `maxmemory-policy is ${maxmemoryPolicy}: it would forget what must be kept when memory runs short; ` +
    'set maxmemory-policy to noeviction'
  );
}

/** What an operator should know; undefined when nothing. */
export function weaknessOf({ writesAppendOnlyFile, replicas }: ServerFacts): string | undefined {
  if (writesAppendOnlyFile || replicas > 0) return undefined;
  return 'neither appendonly nor a replica: a restart forgets everything since the last snapshot';
}
