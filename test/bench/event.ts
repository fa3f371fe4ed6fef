/** A track event of about 450 bytes, as producers send them. Without message_id: the gateway assigns one. */
export function benchEvent(user: number, name = 'Product Viewed'): object {
  return {
    event: name,
    user_id: `user-${user}`,
    timestamp: '2026-01-02T03:04:05.678Z',
    properties: {
      product_id: `507f1f77bcf86cd7994390${user % 100}`,
      sku: 'G-32',
      category: 'Games',
      name: 'Monopoly: 3rd Edition',
      brand: 'Hasbro',
      price: 18.99,
      quantity: 1,
      currency: 'usd',
      url: 'https://www.example.com/product/path',
      position: 3,
    },
    context: {
      locale: 'en-US',
      library: { name: 'bench', version: '1.0.0' },
      page: { path: '/product/path' },
    },
  };
}

/** One event for each user, with these names in turn. */
export function benchBatch(size: number, names: readonly string[] = ['Product Viewed']): object {
  return {
    batch: Array.from({ length: size }, (_, i) => ({
      type: 'track',
      ...benchEvent(i, names[i % names.length]),
    })),
  };
}
