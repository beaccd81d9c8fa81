package provisioner

import (
	"context"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
)

// kind tells the two sorts of queue keys apart.
type kind int

const (
	claimKind kind = iota
	volumeKind
)

type key struct {
	kind kind
	// name is `namespace/name` of a claim or the name of a volume.
	name string
}

// Run serves claims until the context ends. Failures are logged and retried
// with the queue's back-off.
func (p Provisioner) Run(ctx context.Context, client kubernetes.Interface) error {
	factory := informers.NewSharedInformerFactory(client, 10*time.Minute)
	claims := factory.Core().V1().PersistentVolumeClaims().Informer()
	volumes := factory.Core().V1().PersistentVolumes().Informer()
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[key]())
	for _, source := range []struct {
		kind     kind
		informer cache.SharedIndexInformer
	}{{claimKind, claims}, {volumeKind, volumes}} {
		if _, err := source.informer.AddEventHandler(enqueue(queue, source.kind)); err != nil {
			return err
		}
	}
	factory.Start(ctx.Done())
	if !cache.WaitForCacheSync(ctx.Done(), claims.HasSynced, volumes.HasSynced) {
		return errors.New("stopped before the caches were filled")
	}
	go wait.UntilWithContext(ctx, func(ctx context.Context) {
		for p.next(ctx, queue, claims.GetStore(), volumes.GetStore()) {
		}
	}, time.Second)
	<-ctx.Done()
	queue.ShutDown()
	return nil
}

func enqueue(queue workqueue.TypedRateLimitingInterface[key], of kind) cache.ResourceEventHandler {
	add := func(object any) {
		if name, err := cache.MetaNamespaceKeyFunc(object); err == nil {
			queue.Add(key{of, name})
		}
	}
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    add,
		UpdateFunc: func(_, object any) { add(object) },
	}
}

// next handles one key; false means that the queue was shut down.
func (p Provisioner) next(
	ctx context.Context, queue workqueue.TypedRateLimitingInterface[key], claims, volumes cache.Store,
) bool {
	item, shutdown := queue.Get()
	if shutdown {
		return false
	}
	defer queue.Done(item)
	if err := p.handle(ctx, item, claims, volumes); err != nil {
		klog.ErrorS(err, "will be retried", "name", item.name)
		queue.AddRateLimited(item)
		return true
	}
	queue.Forget(item)
	return true
}

func (p Provisioner) handle(ctx context.Context, item key, claims, volumes cache.Store) error {
	store := claims
	if item.kind == volumeKind {
		store = volumes
	}
	object, exists, err := store.GetByKey(item.name)
	if err != nil || !exists {
		return err
	}
	switch object := object.(type) {
	case *corev1.PersistentVolumeClaim:
		return p.Provision(ctx, object)
	case *corev1.PersistentVolume:
		return p.Reclaim(ctx, object)
	}
	return nil
}
