/** Removes every index of an installation's prefix, by the adapters' naming. */
export async function removeIndices(url: string, prefix: string): Promise<void> {
  const pattern = encodeURIComponent(`tributary-${prefix}*`);
  const found = (await (await fetch(`${url}/_alias/${pattern}`)).json()) as Readonly<Record<string, unknown>>;
  await Promise.all(
    Object.keys(found)
      .filter((name) => name.startsWith(`tributary-${prefix}`))
      .map((index) => fetch(`${url}/${index}`, { method: 'DELETE' })),
  );
}
