/** Global objects for single events. */
export interface OwnGlobals {
  /** One that inherits what the real one has, takes what code puts there, and goes with its event. */
  make(): object;
  /** Lets a name that code gives to its global object be read and written as a variable, as in a browser. */
  link(globalObject: object, name: string, get: () => unknown, set: (value: unknown) => void): void;
}

/**
 * Runs inside every isolate once its world is frozen; its text is taken with `toString`, so it must use nothing from
 * outside.
 */
export function ownGlobals(): OwnGlobals {
  const { create, defineProperty, freeze, getOwnPropertyNames } = Object;
  /** Made when a first source needs it: a start of an isolate should not pay for it. */
  let inherited: object | undefined;

  function copyOfGlobal(): object {
    const made: Record<string, unknown> = {};
    for (const name of getOwnPropertyNames(globalThis)) {
      const value = (globalThis as Record<string, unknown>)[name];
      defineProperty(made, name, { value, writable: false, enumerable: false, configurable: true });
    }
    for (const name of ['self', 'globalThis']) {
      const get = freeze(function (this: unknown) {
        return this;
      });
      defineProperty(made, name, { get, enumerable: false, configurable: true });
    }
    return freeze(made);
  }

  return {
    make() {
      inherited ??= copyOfGlobal();
      return create(inherited) as object;
    },
    link: freeze(
      (globalObject: object, name: string, get: () => unknown, set: (value: unknown) => void): void => {
        defineProperty(globalObject, name, { get, set, enumerable: true, configurable: true });
      },
    ),
  };
}
