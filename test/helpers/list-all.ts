import type { Answer, Client } from './client.ts';

/** All pages of a list. Throws where one is not 200. */
export async function listAll<Item>(owner: Client, path: string): Promise<readonly Item[]> {
  const items: Item[] = [];
  let next: string | undefined = `${path}?limit=1000`;
  while (next !== undefined) {
    const page: Answer<readonly Item[]> = await owner.call<readonly Item[]>('GET', next);
    if (page.status !== 200) throw new Error(`${next} answered ${page.status}`);
    items.push(...page.body);
    const cursor: string | undefined = /[?&]cursor=([^&>]+)/.exec(page.headers.get('link') ?? '')?.[1];
    next = cursor === undefined ? undefined : `${path}?limit=1000&cursor=${cursor}`;
  }
  return items;
}
