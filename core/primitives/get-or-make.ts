interface Table<Key, Value> {
  get(key: Key): Value | undefined;
  set(key: Key, value: Value): unknown;
}

/** The value of a key, which is made and kept where there is none. */
export function getOrMake<Key, Value>(table: Table<Key, Value>, key: Key, make: () => NoInfer<Value>): Value {
  const known = table.get(key);
  if (known !== undefined) return known;
  const made = make();
  table.set(key, made);
  return made;
}
