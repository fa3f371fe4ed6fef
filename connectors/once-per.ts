/**
 * `make`, which is asked once for each object and remembered as long as that lives. Settings of one version of a
 * destination are one object, and what follows from them is asked for with every call.
 */
export function oncePer<Key extends object, Value>(make: (key: Key) => Value): (key: Key) => Value {
  const known = new WeakMap<Key, { readonly value: Value }>();
  return (key) => {
    const found = known.get(key);
    if (found !== undefined) return found.value;
    const value = make(key);
    known.set(key, { value });
    return value;
  };
}
