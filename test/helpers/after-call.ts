type Method = (...args: unknown[]) => unknown;

/**
 * Calls `then` after each call of a method of the prototype, in this process or thread. Lets a test slow down or end a
 * process between two steps of the product, which has no hook for it.
 */
export function afterCall<Target extends object>(
  target: Target,
  name: keyof Target,
  then: (self: Target, args: readonly unknown[], result: unknown) => void,
): void {
  const original = target[name] as Method;
  const value = function (this: Target, ...args: unknown[]): unknown {
    const result = original.apply(this, args);
    then(this, args, result);
    return result;
  };
  Object.defineProperty(target, name, { value });
}
